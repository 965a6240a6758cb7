//! The usual bad day of a server, for a rehearsal.

use super::{
    draws::split_mix,
    fault::{Act, Fault},
};

impl Fault {
    /// The usual bad day, without end: four requests in ten are answered, and the others meet one
    /// of these, each as often as the others:
    ///
    /// * 429 or 503, both with a `Retry-After` of one second;
    /// * silence: before the body of the request is read, or after it;
    /// * a closed connection: before the request is read, or after it.
    ///
    /// The same seed gives the same day on every machine. Silence lasts until the client's own
    /// timeout. See the [rehearsal](super#a-bad-day-rehearsed).
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::testing::{Fault, FaultServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // Fifty requests on a bad day; then it is over.
    /// let day = Fault::bad_day(7).take(50).chain([Fault::ok("done")]);
    /// let server = FaultServer::start(day).await;
    /// # drop(server);
    /// # }
    /// ```
    pub fn bad_day(seed: u64) -> impl Iterator<Item = Self> + Send + 'static {
        let mut state = seed;
        std::iter::repeat_with(move || match split_mix(&mut state) % 10 {
            0 => Self::status(429).with_retry_after(1),
            1 => Self::status(503).with_retry_after(1),
            2 => Self::script([Act::ReadHead, Act::Hang]),
            3 => Self::hang(),
            4 => Self::close_before_reading(),
            5 => Self::close_after_request(),
            _ => Self::ok("done"),
        })
    }
}
