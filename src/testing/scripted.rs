//! A transport that plays a script and opens no socket.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Extensions;
use http_body::Body as _;
use http_body_util::BodyExt;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use tokio::time::Instant;

use crate::proof::witness::{Head, SendSlot};

use super::{
    ledger::{Ledger, Seen},
    recorded::{Extent, Recorded},
    script::Script,
    step::{End, Step, Taken},
    transport_error::TransportError,
};

/// A terminal middleware for tests under a paused clock: it plays one [`Step`] for each send,
/// records the request, and never reaches a network.
///
/// Put it last, behind everything under test. It treats the body as the transport does: a step that
/// takes the request reads the whole body, one that does not leaves it untouched. The last step
/// repeats. A clone shares script and records: give one to the client, keep the other.
///
/// A taken request whose body fails is recorded as incomplete and fails like [`Step::fails`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::{Scripted, Step};
/// use reqwest_middleware::ClientBuilder;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reqwest_middleware::Error> {
/// let overloaded = Step::status(503).after(Duration::from_millis(40));
/// let peer = Scripted::new([overloaded, Step::ok("done")]);
/// let client = ClientBuilder::new(reqwest::Client::new()) // your middleware here
///     .with(peer.clone())
///     .build();
///
/// let response = client.post("http://peer.test/orders").body("one coffee").send().await?;
/// assert_eq!(response.status(), 503); // nothing in this client sends again
/// peer.assert_sends(1);
/// peer.assert_writes(1);
/// # Ok(())
/// # }
/// ```
///
/// ```
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_safe_retry::{SafeRetry, policy::{Draw, RetryPolicy}, testing::{Draws, Scripted}};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let peer = Scripted::answering(502);
/// let retry = SafeRetry::new().with_draws(Draws::constant(Draw::GREATEST)); // no chance
/// let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(peer.clone()).build();
/// let read = tokio::spawn(async move { client.get("http://peer.test/").send().await });
/// peer.until_sends(RetryPolicy::DEFAULT.attempts() as usize).await;
/// peer.assert_pauses([Duration::from_millis(100), Duration::from_millis(200)]);
/// assert_eq!(read.await.unwrap().unwrap().status(), 502);
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "mock")]
pub struct Scripted(Arc<State>);

struct State {
    script: Script<Step>,
    ledger: Ledger,
    /// When each send ended, by its place in the ledger.
    ends: Mutex<Vec<Option<Instant>>>,
}

impl Scripted {
    /// Plays these steps; the last one repeats. Without any step it answers 200.
    #[must_use]
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Script::new(steps.into_iter().collect::<Vec<_>>(), Step::status(200));
        Self(Arc::new(State { script, ledger: Ledger::new(), ends: Mutex::default() }))
    }

    /// Answers every send with this status.
    ///
    /// # Panics
    /// Panics if the code is not a status (100 to 999).
    #[must_use]
    #[track_caller]
    pub fn answering(code: u16) -> Self {
        Self::new([Step::status(code)])
    }

    /// Every send that reached it, in order; those that were never taken have no body and are not
    /// complete.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.0.ledger.read(|seen| seen.requests.clone())
    }

    /// How many sends reached it, taken or not.
    #[must_use]
    pub fn sends(&self) -> usize {
        self.0.ledger.read(|seen| seen.requests.len())
    }

    /// The pauses between consecutive sends: from the end of one (its answer's head, its failure,
    /// or the limit that cut it) to the arrival of the next. Means little where sends overlap.
    #[must_use]
    pub fn pauses(&self) -> Vec<Duration> {
        let arrivals: Vec<Instant> = self.0.ledger.read(|seen| seen.requests.iter().map(Recorded::arrived).collect());
        let ends = self.0.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = |(arrival, end): (&Instant, &Option<Instant>)| end.map(|end| arrival.saturating_duration_since(end));
        arrivals.iter().skip(1).zip(ends.iter()).map(|pair| pause(pair).unwrap_or_default()).collect()
    }

    /// Waits until at least so many sends have reached it.
    ///
    /// # Panics
    /// Panics after 10 s on tokio's clock, with what was seen.
    #[track_caller]
    pub fn until_sends(&self, count: usize) -> impl Future<Output = ()> {
        self.0.ledger.until(format!("{count} sends"), move |seen| seen.requests.len() >= count)
    }

    /// Asserts how many sends reached it, taken or not.
    ///
    /// # Panics
    /// Panics if it is another number, with what was seen.
    #[track_caller]
    pub fn assert_sends(&self, count: usize) {
        self.0.ledger.assert_count("sends", count, |seen| seen.requests.len());
    }

    /// Asserts how many complete writes it took: as often may the server have acted. See
    /// [`Recorded::is_write`].
    ///
    /// # Panics
    /// Panics if it is another number, with what was seen.
    #[track_caller]
    pub fn assert_writes(&self, count: usize) {
        self.0.ledger.assert_count("complete writes", count, Seen::writes);
    }

    /// Asserts the pauses between consecutive sends, see [`Scripted::pauses`].
    ///
    /// # Panics
    /// Panics if they differ.
    #[track_caller]
    pub fn assert_pauses(&self, wanted: impl IntoIterator<Item = Duration>) {
        assert_eq!(self.pauses(), wanted.into_iter().collect::<Vec<_>>(), "the pauses between sends");
    }
}

#[async_trait::async_trait]
impl Middleware for Scripted {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, _: Next<'_>) -> Result<Response> {
        // It stands in for the transport, so what it does is witnessed.
        let slot = extensions.get::<SendSlot>().filter(|slot| !slot.is_open()).cloned();
        let stood_in = slot.as_ref().map(|slot| slot.stand_in(request.headers()));
        let step = self.0.script.take();
        let place = self.0.ledger.enter(recorded(&request));
        let _ending = Ending { state: &self.0, place };
        if step.taken == Taken::Whole && self.take(&mut request, place).await.is_err() {
            return Err(TransportError::Closed.strike(request.url()).await.into());
        }
        if !step.delay.is_zero() {
            tokio::time::sleep(step.delay).await;
        }
        match step.end {
            End::Answers(answer) => {
                let response = answer.response(request.url().clone(), request.method());
                if let (Some(slot), Some(place)) = (slot, stood_in) {
                    slot.answered(place, Head::of(&response));
                }
                Ok(response)
            }
            End::Fails(error) => Err(error.strike(request.url()).await.into()),
            End::Hangs => std::future::pending().await,
        }
    }
}

impl Scripted {
    /// Reads the body as the transport does: whether it has ended is asked before anything is sent,
    /// then come the frames.
    async fn take(&self, request: &mut Request, place: usize) -> reqwest::Result<()> {
        if let Some(body) = request.body_mut().take() {
            let mut body = std::pin::pin!(body);
            while !body.is_end_stream() {
                match body.frame().await {
                    Some(frame) => {
                        let data = frame?.into_data().unwrap_or_default();
                        self.0.ledger.extend(place, &[], &data, Extent::Partial);
                    }
                    None => break,
                }
            }
        }
        self.0.ledger.extend(place, &[], &[], Extent::Complete);
        Ok(())
    }
}

/// Notes the end of a send when it is dropped, so that a send cut by a limit ends, too.
struct Ending<'a> {
    state: &'a State,
    place: usize,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut ends = self.state.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() <= self.place {
            ends.resize(self.place + 1, None);
        }
        ends[self.place] = Some(Instant::now());
    }
}

fn recorded(request: &Request) -> Recorded {
    Recorded {
        method: request.method().clone(),
        url: request.url().clone(),
        headers: request.headers().clone(),
        body: Vec::new(),
        raw: Vec::new(),
        extent: Extent::Partial,
        arrived: Instant::now(),
        connection: 0,
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("ledger", &self.0.ledger).finish_non_exhaustive()
    }
}
