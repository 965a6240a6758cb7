#![doc = include_str!("../README.md")]

mod link;
mod store;

use redis::Client;
use reqwest_safe_retry::{Cooldown, HoldsBack};

pub use link::Link;

/// A cool-down that all processes of a fleet share, and the link through which they do.
///
/// Spawn [`Link::run`]; without it, the cool-down is this process's own. First sends are held back
/// as well. A fleet is whoever gives the same name and uses the same store.
///
/// # Examples
/// ```no_run
/// use reqwest_safe_retry::SafeRetry;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cooldown, link) = reqwest_safe_retry_redis::share(redis::Client::open("redis://store.internal/")?, "checkout");
/// tokio::spawn(link.run());
/// let client = SafeRetry::new().with_shared_cooldown(cooldown).client(reqwest::Client::builder()).build()?;
/// # Ok(())
/// # }
/// ```
pub fn share(store: Client, fleet: &str) -> (Cooldown, Link) {
    share_as(Cooldown::new().holding_back(HoldsBack::FirstSendsToo), store, fleet)
}

/// As [`share`], for a cool-down of your own: one with names ([`Cooldown::named_by`]), or one that
/// holds back resends only.
pub fn share_as(cooldown: Cooldown, store: Client, fleet: &str) -> (Cooldown, Link) {
    let (tell, news) = link::news();
    let link = Link::new(cooldown.clone(), news, store, fleet);
    (cooldown.relayed(tell), link)
}
