//! What becomes of one operation's request: done or not, told or not.

use std::{future::pending, time::Duration};

use http::{HeaderValue, Request, StatusCode, header::LOCATION};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    Server,
    answer::{Answer, Failure, answer, cut, stalled, trickling},
    connection::{Line, Order},
    database::Applied,
    fault::{ActsOn, End, Fault},
    life::Life,
};
use crate::{
    asked::{self, Asked},
    chance::{Chance, Subject},
    class::{Class, REPLAYED, TRUSTED},
    journal::{Place, Said},
    limits::LATEST_ACT,
};

/// A request whose head is there.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) class: Class,
    pub(super) place: Place,
    /// When its caller sent it.
    pub(super) began: Instant,
}

/// What became of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Applied(Applied),
    /// The first copy is still under way.
    InUse,
    /// It was sent so long ago that nothing is done any more.
    TooLate,
}

impl Server {
    pub(super) async fn write(&self, arrival: Arrival, request: Request<Incoming>, line: &Line, life: &Life) -> Result<Answer, Failure> {
        let Arrival { class, place, .. } = arrival;
        let (fault, acts_on, mut chance) = Fault::draw(place.operation, class, place.ordinal, line.shared());
        self.counts.strikes(fault.name());
        self.journal.suffers(place, fault.name());
        let (head, body) = request.into_parts();
        let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
        let delay = if let Fault::Late(delay) = fault { delay } else { Duration::ZERO };
        let begin = || self.begin(life, arrival, key, delay);

        match fault {
            Fault::RefusedStream if line.is_h2 => {
                self.journal.refused(place);
                return end(line, End::Stream(h2::Reason::REFUSED_STREAM)).await;
            }
            Fault::RefusedStream => return end(line, End::Close).await,
            Fault::GoAway => line.order(Order::GoAway),
            _ => {}
        }
        let acts_at_once = acts_on == ActsOn::Head;
        let (begun, begin) = if acts_at_once && fault.acts() { (Some(begin()), None) } else { (None, Some(begin)) };
        if let Fault::KilledAtHead(how) = fault {
            return end(line, how).await;
        }
        if !(acts_at_once && fault.answers_early()) {
            body.collect().await?;
        }
        match fault {
            Fault::TooEarly => {
                self.journal.refused(place);
                return Ok(self.said(arrival, answer(StatusCode::TOO_EARLY), Asked::Nothing));
            }
            Fault::Busy(status) => {
                if class == Class::Trusting && status == TRUSTED {
                    self.journal.refused(place);
                }
                return Ok(self.busy(arrival, status, &mut chance));
            }
            Fault::Rejected => return Ok(self.said(arrival, answer(StatusCode::BAD_REQUEST), Asked::Nothing)),
            Fault::Deaf => return pending().await,
            _ => {}
        }

        let done = match (begun, begin) {
            (Some(begun), _) => begun.await,
            (None, Some(begin)) => begin().await,
            (None, None) => Ok(Done::TooLate),
        };
        let told = match done {
            Ok(Done::Applied(applied)) => told(class, applied),
            Ok(Done::InUse) => return Ok(self.in_use(arrival, &mut chance)),
            Ok(Done::TooLate) => return end(line, End::Close).await,
            Err(_) => return pending().await, // the life has ended, and this connection with it
        };
        match fault {
            Fault::Lost(how) => return end(line, how).await,
            Fault::FalseAlarm(status) => return Ok(self.busy(arrival, status, &mut chance)),
            Fault::SeeOther => return Ok(self.said(arrival, redirect(place, &mut chance), Asked::Nothing)),
            Fault::Slow(delay) => sleep(delay).await,
            Fault::TornHead(bytes) => line.fate.tear_after(bytes),
            Fault::IdleClose(delay) => {
                let line = line.clone();
                life.spawn(async move {
                    sleep(delay).await;
                    line.order(if line.is_h2 { Order::GoAway } else { Order::End });
                });
            }
            _ => {}
        }
        let told = self.said(arrival, told, Asked::Nothing);
        Ok(match fault {
            Fault::CutBody => cut(told),
            Fault::StalledBody => stalled(told),
            Fault::TricklingBody(pause) => trickling(told, pause),
            _ => told,
        })
    }

    /// Where redirects lead: a page that does nothing, and says anything.
    pub(super) async fn landing(&self, operation: u64, send: u64, line: &Line) -> Result<Answer, Failure> {
        let status = Chance::of(operation, Subject::Landing(send)).weighted(&[
            (4, Some(StatusCode::OK)),
            (2, Some(StatusCode::TOO_EARLY)),
            (2, Some(TRUSTED)),
            (1, Some(StatusCode::NOT_FOUND)),
            (2, None),
        ]);
        match status {
            Some(status) => Ok(answer(status)),
            None => end(line, End::Close).await,
        }
    }

    /// Work goes on when its client has hung up, and ends with the server's life.
    fn begin(&self, life: &Life, arrival: Arrival, key: Option<String>, delay: Duration) -> oneshot::Receiver<Done> {
        let Arrival { class, place, began } = arrival;
        let (done, told) = oneshot::channel();
        if !class.is_write() {
            let _ = done.send(Done::Applied(Applied::Now));
            return told;
        }
        if key.is_some() && life.is_running(place.operation) {
            let _ = done.send(Done::InUse);
            return told;
        }
        let running = life.mark(place.operation);
        let server = self.clone();
        life.spawn(async move {
            sleep(delay).await;
            let now = Instant::now();
            let applied = if now > began + LATEST_ACT {
                Done::TooLate
            } else {
                let micros = server.journal.micros(now);
                let memory = u64::try_from(class.memory().as_micros()).unwrap_or(u64::MAX);
                // A database that failed is told of at the end of the run.
                let applied = server.database.apply(place.operation, key.as_deref(), micros, micros.saturating_sub(memory));
                applied.map_or(Done::TooLate, Done::Applied)
            };
            drop(running);
            let _ = done.send(applied); // nobody may be there to hear it
        });
        told
    }

    fn in_use(&self, arrival: Arrival, chance: &mut Chance) -> Answer {
        let mut told = answer(StatusCode::CONFLICT);
        let asked = if chance.happens(50) { asked::draw(chance, told.headers_mut()) } else { Asked::Nothing };
        let said = Said { at: Instant::now(), status: told.status(), asked, in_use: true };
        self.journal.said(arrival.place, said);
        told
    }

    pub(super) fn busy(&self, arrival: Arrival, status: StatusCode, chance: &mut Chance) -> Answer {
        let mut told = answer(status);
        let asked = asked::draw(chance, told.headers_mut());
        self.said(arrival, told, asked)
    }

    fn said(&self, arrival: Arrival, told: Answer, asked: Asked) -> Answer {
        self.journal.said(arrival.place, Said { at: Instant::now(), status: told.status(), asked, in_use: false });
        told
    }
}

fn told(class: Class, applied: Applied) -> Answer {
    match applied {
        Applied::Now if class.is_write() => answer(StatusCode::CREATED),
        Applied::Now => answer(StatusCode::OK),
        Applied::Before => {
            let mut told = answer(StatusCode::CREATED);
            told.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            told
        }
        Applied::Elsewhere => answer(StatusCode::UNPROCESSABLE_ENTITY),
    }
}

fn redirect(place: Place, chance: &mut Chance) -> Answer {
    // Nobody listens at port 1, where the service `tcpmux` was long ago.
    let host = if chance.happens(30) { "http://127.0.0.1:1" } else { "" };
    let mut told = answer(StatusCode::SEE_OTHER);
    if let Ok(location) = HeaderValue::try_from(format!("{host}/landing/{:016x}", place.operation)) {
        told.headers_mut().insert(LOCATION, location);
    }
    told
}

/// Ends a stream or its connection without an answer.
pub(super) async fn end(line: &Line, how: End) -> Result<Answer, Failure> {
    match how {
        End::Stream(reason) => return Err(h2::Error::from(reason).into()),
        End::Close => {}
        End::Reset => line.fate.reset(),
    }
    line.order(Order::End);
    pending().await
}
