//! How do I test my own client?
//!
//! Two peers come with the feature `testing`. `FaultServer` misbehaves on a real socket: for what a
//! client makes of the wire. `Scripted` stands in for the transport under a paused clock: for
//! timing. Both count what a server may have acted on. Never use both in one test: tokio moves a
//! paused clock while a task waits for a socket, so every timeout fires at once.
//!
//! ```toml
//! [dev-dependencies]
//! reqwest-safe-retry = { version = "0.1", features = ["testing"] } # scripted servers; testing-h2, testing-tls
//! tokio = { version = "1", features = ["macros", "rt-multi-thread", "test-util"] } # paused clocks
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest_middleware::ClientBuilder;
//! use reqwest_safe_retry::{
//!     SafeRetry,
//!     testing::{Fault, FaultServer, Scripted, Step},
//! };
//!
//! #[tokio::test]
//! async fn a_post_whose_answer_is_lost_is_sent_once() -> reqwest::Result<()> {
//!     let shop = FaultServer::start([Fault::close_after_request(), Fault::ok("order 2041")]).await;
//!     let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
//!     assert!(client.post(shop.url("/orders")).body("one coffee").send().await.is_err());
//!     shop.assert_writes(1);
//!     Ok(())
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn a_read_waits_as_long_as_it_was_asked_to() -> reqwest_middleware::Result<()> {
//!     let shop = Scripted::new([Step::status(503).with_header("retry-after", "2"), Step::ok("menu")]);
//!     let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(shop.clone()).build();
//!     assert_eq!(client.get("http://shop.test/menu").send().await?.status(), 200);
//!     assert!(shop.pauses()[0] >= Duration::from_secs(2));
//!     Ok(())
//! }
//! ```
//!
//! # What to rehearse
//!
//! | bad day | `FaultServer` | what to count |
//! |---|---|---|
//! | the answer is lost | `Fault::close_after_request()`, `reset_after_request()` | `assert_writes(1)`, or two under one key |
//! | overload | `Fault::status(503).with_retry_after(1)` or `with_retry_after_at(time)`, `status(429)` | the pause between `requests()[n].arrived()` |
//! | a hang | `Fault::hang()` | the time the caller waited |
//! | a hang in the body | `Fault::ok("..").with_body_stalled_at(3)` | the same, with `reading_body` too |
//! | the body is cut | `Fault::ok("..").with_body_cut_at(3)` | `BodyLost`, or a second read |
//! | refused over HTTP/2 | `H2Fault::refused_stream()` (feature `testing-h2`) | sends ≤ attempts |
//! | an untrusted certificate | `Tls` (feature `testing-tls`) | one try |
//!
//! `Fault::script` plays any sequence of acts. `FaultServer::by_path` has steps for each path, and
//! `FaultServer::with` chooses the fault by the request. As an HTTP proxy it needs nothing special:
//! give its URL to `reqwest::Proxy`. To wait for the server, not for a time: `until_requests(2)`,
//! `until_writes(2)`.
//!
//! # All of it at once
//!
//! `Fault::bad_day(seed)` has no end: 429 and 503, silence before the request's body is read and
//! after it, connections that close before it and after it, and answers between them. Send a
//! number of orders through it, each with a body of its own, and count what would have happened
//! twice: `server.duplicates("idempotency-key")`, or `assert_no_duplicates`
//! (the module `testing` shows such a test).
//!
//! For curl, and for a client in another language, the same day runs as a program, and tells at
//! Ctrl-C what it counted:
//!
//! ```sh
//! cargo run --example misbehave --features testing -- --port 8080 --seed 7 --key idempotency-key
//! curl --max-time 1 --retry 3 --data "1 coffee" http://127.0.0.1:8080/orders # and see what --retry repeats
//! ```
//!
//! # Chance
//!
//! `SafeRetry::with_draws(Draws::constant(Draw::HALF))` makes every jittered pause half of its
//! backoff; `Draws::seeded(7)` looks random and is the same in every run.
//!
//! # A mock of your own
//!
//! A middleware that answers by itself, without a witness behind it, proves nothing: a 425 from it
//! does not make a POST repeatable. `Scripted` can, since it tells what it took. Other mock servers
//! on a socket (wiremock, httpmock) are servers like any other.
//!
//! # The catalogue
//!
//! A [catalogue](super::safe_to_repeat) has a test of its own: `audit_for(&retry).assert_ready()`.
//!
//! `cargo test --features testing --example rehearsal` is a bad day, rehearsed on a client of three
//! lines; `examples/tour` has a shop with a database behind it.

#![allow(clippy::test_attr_in_doctest, reason = "a reader copies them; `tests/it/readme.rs` runs them")]
