//! What the server says about an operation that somebody asks for.

use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header::AGE};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep};

use super::{
    Server,
    answer::{Answer, Failure, answer},
    connection::Line,
    fault::End,
    life::Life,
    writes::end,
};
use crate::{
    asked::{self, Asked},
    chance::{Chance, Subject},
    journal::{Place, Said},
};

/// What the server does to one question.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// The answer is true when the question arrives, and told later.
    Slow(Duration),
    /// 202, whatever is true.
    InProgress,
    Busy,
    Failing,
    Lost(End),
    /// A cache in front kept the answer from before the write, and says how old it is.
    Cached,
    /// A replica that has not heard yet of what is still running.
    Behind,
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "status: none",
            Self::Slow(_) => "status: slow",
            Self::InProgress => "status: in progress",
            Self::Busy => "status: busy",
            Self::Failing => "status: failing",
            Self::Lost(_) => "status: lost",
            Self::Cached => "status: cached",
            Self::Behind => "status: behind",
        }
    }
}

impl Server {
    pub(super) async fn status(&self, place: Place, request: &Request<Incoming>, line: &Line, life: &Life) -> Result<Answer, Failure> {
        let mut chance = Chance::of(place.operation, Subject::Status(place.ordinal));
        let slow = chance.millis(50, 600);
        let fault = chance.weighted(&[
            (60, Fault::None),
            (12, Fault::Slow(slow)),
            (8, Fault::InProgress),
            (5, Fault::Busy),
            (3, Fault::Failing),
            (3, Fault::Lost(End::Reset)),
            (3, Fault::Lost(End::Stream(h2::Reason::INTERNAL_ERROR))),
            (6, Fault::Cached),
            (20, Fault::Behind),
        ]);
        self.counts.strikes(fault.name());
        self.journal.suffers(place, fault.name());

        // Without its query the operation has another name, of which nothing is known.
        let is_known = self.journal.plan(place.operation).is_some_and(|plan| !plan.has_tenant || request.uri().query() == Some("tenant=7"));
        let true_status = if is_known && self.database.applied(place.operation) > 0 {
            StatusCode::OK
        } else if is_known && life.is_running(place.operation) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::NOT_FOUND
        };
        let mut told = answer(match fault {
            Fault::None | Fault::Slow(_) => true_status,
            Fault::InProgress => StatusCode::ACCEPTED,
            Fault::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Fault::Failing => StatusCode::INTERNAL_SERVER_ERROR,
            Fault::Behind if true_status != StatusCode::ACCEPTED => true_status,
            Fault::Behind => StatusCode::NOT_FOUND,
            Fault::Cached => StatusCode::NOT_FOUND,
            Fault::Lost(how) => return end(line, how).await,
        });
        let asked = match fault {
            Fault::InProgress | Fault::Busy => asked::draw(&mut chance, told.headers_mut()),
            Fault::None | Fault::Slow(_) | Fault::Failing | Fault::Cached | Fault::Behind | Fault::Lost(_) => Asked::Nothing,
        };
        match fault {
            Fault::Slow(slow) => sleep(slow).await,
            Fault::Cached => {
                told.headers_mut().insert(AGE, HeaderValue::from_static("20"));
            }
            _ => {}
        }
        self.journal.said(place, Said { at: Instant::now(), status: told.status(), asked, in_use: false });
        Ok(told)
    }
}
