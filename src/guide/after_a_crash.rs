//! The process was killed in the middle of a write. How does the next one carry on?
//!
//! The server may have acted, and the answer died with the process. Two facts have to outlive it,
//! and only *your* database can keep them: the **key** (or what it is derived from) and
//! **`sent_at`**, the time just before the first send. Commit both in the transaction that decides
//! to send. Then send. After a restart, say what you find:
//!
//! ```
//! use reqwest_middleware::{ClientWithMiddleware, Result};
//! use reqwest_safe_retry::{Endpoint, IdempotencyKey, KeyContract, RetryReport, SentBefore};
//! # use reqwest_safe_retry::{SafeRetry, testing::{Fault, FaultServer}};
//! use std::time::SystemTime;
//!
//! /// As your database had it before the transaction that decides to send.
//! struct Row { key: IdempotencyKey, sent_at: Option<SystemTime> }
//!
//! async fn order(client: &ClientWithMiddleware, url: reqwest::Url, row: Row) -> Result<reqwest::Response> {
//!     let order = client.post(url).body("one coffee");
//!     let order = order.with_extension(Endpoint::keyed_write(KeyContract::STRIPE)).with_extension(row.key);
//!     match row.sent_at {
//!         None => order.send().await, // it was empty; this process has filled it since
//!         Some(sent_at) => order.with_extension(SentBefore::since(sent_at)).send().await,
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let api = FaultServer::start([Fault::ok("ordered")]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! # let client = SafeRetry::new().client(builder).redirects_off().build()?;
//! # let url = api.url("/orders");
//! # let row = Row { key: IdempotencyKey::parse("order-2041").unwrap(), sent_at: Some(SystemTime::now()) };
//! let answer = order(&client, url, row).await?;
//! println!("{}", RetryReport::of(&answer).unwrap()); // says what was decided before the first send
//! # assert_eq!(answer.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! [`SentBefore`] makes the operation begin as it would go on after a lost answer:
//!
//! | the write has | what happens | orders |
//! |---|---|---|
//! | a key made by each process, no `SentBefore` (**the mistake**) | sent under a new key | 2 |
//! | a key from the row, or a derived one | sent under the key of then | 1 |
//! | the same, but the server may have forgotten it | its probe is asked; without one [`KeyExpired`] | 1 |
//! | a probe | asked first; *absent* counts once the endpoint has settled after the restart | 1 |
//! | neither | nothing is sent: [`OutcomeUnknown`], and a person looks | 0 or 1 |
//!
//! A key that says when it was [first used](crate::IdempotencyKey::first_used) tells the same about
//! a keyed write. `SentBefore` is for probed and unprotected ones as well.
//!
//! `cargo run --example survive_a_crash` kills real processes to show it. Give the probed write a
//! deadline longer than its [settling time](crate::Endpoint::settling), or it cannot learn that
//! nothing is there.
//!
//! # Inside a workflow engine
//!
//! Temporal, Restate and DBOS repeat a step that did not report its end. The step's id is the same
//! each time, so derive the key from it ([`IdempotencyKey::derived`]): workflow id and activity id
//! in Temporal, invocation id and step name in Restate, workflow id and step number in DBOS. Not
//! the number of the try: that one changes. A key made inside of the step is the mistake above. For
//! a probed write let an earlier step record `sent_at`, and give it to `SentBefore` always: the
//! engine does not tell you that it repeats.
//!
//! # Why there is no journal in this crate
//!
//! A trait for journals, or a store of keys, would be a second journal: it cannot commit in your
//! transaction. Between the two commits a crash leaves an order without a key, or a key without an
//! order, which is the fault it was meant to mend. One row of yours has no such gap.
//!
//! [`IdempotencyKey::derived`]: crate::IdempotencyKey::derived
//! [`KeyExpired`]: crate::Misuse::KeyExpired
//! [`OutcomeUnknown`]: crate::RetryError::OutcomeUnknown
//! [`SentBefore`]: crate::SentBefore
