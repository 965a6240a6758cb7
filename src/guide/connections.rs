//! What happens below: connections, HTTP/2, redirects, proxies?
//!
//! This crate decides between attempts. Connections, redirects and proxies belong to reqwest, below
//! every middleware. These are the places where that can be seen, and what to set.
//!
//! # A connection that the server has just closed
//!
//! The everyday lost answer: a connection waits in the pool, the server closes it, and at that
//! moment a request goes out on it. Nobody can tell this from a server that took the request and
//! died, so an unprotected POST ends `OutcomeUnknown`. At the edge of a server's idle timeout this
//! was 5 to 20 % of the POSTs, although nothing ran. Let the client close first:
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest_safe_retry::SafeRetry;
//!
//! # fn main() -> reqwest::Result<()> {
//! let builder = reqwest::Client::builder()
//!     .connect_timeout(Duration::from_secs(2)) // fails early, with proof that nothing was sent
//!     .pool_idle_timeout(Duration::from_secs(4)) // below the server's idle timeout: Node has 5 s
//!     .http2_keep_alive_interval(Duration::from_secs(10)) // finds an HTTP/2 connection that went silent
//!     .http2_keep_alive_timeout(Duration::from_secs(5));
//! let client = SafeRetry::new().with_attempt_limit(Duration::from_secs(8)).client(builder).build()?;
//! # let _ = client;
//! # Ok(())
//! # }
//! ```
//!
//! With `pool_idle_timeout` below the server's: 0 of 2,000. reqwest's default is 90 s. Where a
//! server names its timeout (`Keep-Alive: timeout=5`) and a write is lost this way, the report and
//! the log say so ([`Advice::IdleConnection`](crate::Advice::IdleConnection)), once for each
//! origin.
//!
//! # Resends stay with the sick backend
//!
//! Behind a balancer that balances connections, the next attempt goes over the same connection to
//! the same backend. On HTTP/1, a header `connection: close` on the request makes the next attempt
//! open a new one; `pool_max_idle_per_host(0)` does so for the whole client, at the price of a new
//! connection for each request. On HTTP/2 nothing here can: reqwest has no way to ask for another
//! connection, so 421 is not sent again either.
//!
//! # HTTP/2
//!
//! * **A connection that went silent** takes the next attempt too, until the client notices. The
//!   two settings above notice; `http2_keep_alive_while_idle(true)` notices before any request
//!   meets it.
//! * **After a GOAWAY** a POST sometimes stays unsent in the client below us, without an error (15
//!   of 20,000, with plain reqwest too). Only an attempt limit heals that.
//! * **reqwest repeats on its own** what an HTTP/2 server refused: up to 3 sends under each
//!   attempt, unseen here. Against a server that refuses every stream, an existing client
//!   without a witness sends a GET 9 times for 3 attempts, 12 times for 4. A
//!   [`SendWitness`](crate::SendWitness) keeps it from that where the body is empty or redirects
//!   are off, and [`SafeRetry::client`](crate::SafeRetry::client) always does. Elsewhere say
//!   `.retry(reqwest::retry::never())`.
//! * **A refused stream is proof.** So is a connection that closes below a request whose body had
//!   been read, whatever the code. A request without a body stays unknown then.
//!
//! # Redirects
//!
//! reqwest follows them below this crate. One operation may so reach several servers, and an error
//! of the last one says nothing about the first. The client of
//! [`SafeRetry::client`](crate::SafeRetry::client) counts them. An existing client has to say what
//! it does, because nobody can read it back:
//! [`SendWitness::redirects_off`](crate::SendWitness::redirects_off), `default_redirects` or
//! `custom_redirects`. Without a [`SendWitness`](crate::SendWitness) more counts as unknown;
//! nothing gets riskier. To have everything proven, turn redirects off.
//!
//! **`Retry-After` on a 3xx is not seen**, since the redirect is followed before anybody asks. A
//! server that says "come back there in 30 s" is called at once. The way is redirects off, and the
//! hop in your own hands:
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use reqwest::{Response, Url};
//! use reqwest_middleware::{ClientWithMiddleware, Result};
//! use reqwest_safe_retry::{SafeRetry, policy::Hint};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! /// Follows one redirect of a read, not earlier than the server asked; hands it back where that is too long.
//! async fn read(client: &ClientWithMiddleware, url: Url, longest: Duration) -> Result<Response> {
//!     let answer = client.get(url).send().await?;
//!     let target = answer.headers().get("location").and_then(|to| answer.url().join(to.to_str().ok()?).ok());
//!     let Some(target) = target.filter(|_| answer.status().is_redirection()) else { return Ok(answer) };
//!     match Hint::parse(answer.headers(), SystemTime::now()) {
//!         Some(Ok(wait)) if wait <= longest => tokio::time::sleep(wait).await,
//!         Some(_) => return Ok(answer), // longer than we wait, or unreadable
//!         None => {}
//!     }
//!     client.get(target).send().await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let steps = [Fault::status(307).with_header("location", "/there").with_header("retry-after", "0.2"), Fault::ok("menu")];
//! # let shop = FaultServer::start(steps).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! let client = SafeRetry::new().client(builder).redirects_off().build()?;
//! let menu = read(&client, shop.url("/menu"), Duration::from_secs(5)).await?;
//! # assert_eq!(menu.status(), 200);
//! # let requests = shop.requests();
//! # assert!(requests[1].arrived() - requests[0].arrived() >= Duration::from_millis(200));
//! # Ok(())
//! # }
//! ```
//!
//! # Proxies
//!
//! A proxy that refuses CONNECT (407, 403, 503) comes as "not connected". So does a SOCKS proxy
//! that allows no connection, or accepts no way to log in. Neither reqwest nor hyper-util exports a
//! type that tells these from a proxy that is away, and texts are not read. Nothing reached the
//! server, so each is sent again, after the short backoff and without the proxy's own
//! `Retry-After`: a wrong proxy password is tried as often as the policy has attempts.
//!
//! # Uploads
//!
//! An HTTP/1 server may answer while the request's body is still on its way. reqwest then goes on
//! uploading: of a 32 MiB PUT that was refused after 64 KiB the server got all 32 MiB, beside the
//! next attempt, and no less after the answer was dropped. Where redirects are off, a write's body
//! is handed over in pieces of 64 KiB, and the upload stops once an error answer is read to its end
//! or dropped: the server got 4.2 MiB, which is what both kernels hold. An early success is
//! left alone. Where redirects are followed, or without a witness, nothing here can stop it. For
//! large bodies ask first, with a small request.
//!
//! # Connections of failed answers
//!
//! Up to 64 KiB of a failed answer are read, for up to 50 ms. So its HTTP/1 connection can serve
//! the next attempt, and its HTTP/2 stream ends without a RST_STREAM, of which servers take only a
//! few. A longer body costs a new connection.
