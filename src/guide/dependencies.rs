//! Which dependencies do my users see, and what does an update mean?
//!
//! A dependency is *public* if its types stand in this crate's interface: then your program and
//! this crate must use the same major version of it. It is *private* otherwise, and updates of it
//! are this crate's own affair. Two private ones still have to match what reqwest uses.
//!
//! # Public
//!
//! | crate | where you meet it | a new major version of it means |
//! |---|---|---|
//! | `http` 1 | statuses, headers, methods, extensions; also in the engine alone | a new major version of this crate |
//! | `reqwest` 0.13 | client, request, response, error | the same |
//! | `reqwest-middleware` 0.5 | client, `Middleware`, error | the same |
//! | `url` 2 | URLs of budgets, scopes, probes; it is `reqwest::Url` | follows reqwest |
//! | `tokio` 1 | `Instant` of [`Deadline::at`](crate::Deadline::at) and of cool-downs; it must run | a new major version of this crate |
//! | `wasmtimer` 0.4 | [in a browser](crate#in-a-browser), in the place of tokio's `Instant` | the same |
//! | `uuid` 1 | [`Uuid`](crate::Uuid) of [`IdempotencyKey::derived`](crate::IdempotencyKey::derived), exported here | the same |
//! | `async-trait` 0.1 | the macro for [`StatusProbe`](crate::StatusProbe), exported here | the same, if its expansion changes |
//! | `serde` 1 | feature `serde`: reports, situations, decisions | the same |
//! | `bytes` 1 | feature `testing` | the same |
//!
//! "A new major version of this crate" is a new minor one before 1.0, 0.2 after 0.1.
//!
//! # Seen without a type
//!
//! | crate | what has to match |
//! |---|---|
//! | `task-local-extensions` 0.1 | only if your program uses its maps too: they and a [scope](crate::Deadline::scope) see each other in one version only |
//! | `tracing` 0.1, `metrics` 0.24 | your subscriber and recorder speak to these versions; with another version of `metrics`, nothing is counted |
//!
//! # Private, but they have to match reqwest's
//!
//! `hyper` 1, `hyper-util` 0.1, `h2` 0.4 and `rustls` 0.23: this crate reads reqwest's errors by
//! their types. Where reqwest has moved to another major version, nothing is recognised and
//! everything counts as unknown. That costs resends and never safety. A test pins it: such an
//! update is noticed here before it reaches you.
//!
//! # What an update costs you
//!
//! * **reqwest or reqwest-middleware, a new minor version before 1.0:** wait for a version of this
//!   crate that names it. Two versions in one tree do compile, but a client of the one cannot take
//!   the plugin for the other: the compiler says `expected reqwest_middleware::Middleware, found
//!   reqwest_middleware::Middleware`. `cargo tree --duplicates` shows both.
//! * **reqwest, a patch version:** nothing to do. Run your [rehearsal](super::testing): what
//!   reqwest does with connections may have changed.
//! * **A TLS backend:** the feature `rustls` of this crate goes with reqwest's default TLS. With
//!   native TLS an untrusted certificate is not recognised as beyond help, so it is tried as often
//!   as any connection that fails.
//! * **HTTP/2:** the feature `http2` of this crate (default) reads refusals as proof. It does not
//!   turn HTTP/2 on in reqwest: that is reqwest's own feature.
//! * **The oldest versions** that `Cargo.toml` names are built in every run of the checks, and
//!   so is the oldest Rust, 1.85.
//!
//! # Features only add
//!
//! Cargo adds up the features of all crates in a tree. So no feature of this crate changes what it
//! decides, but for what it can recognise as proof (`http2`) or as beyond help (`rustls`).
//! `default-features = false` leaves the [engine](super::engine) with `http` and `httpdate`.
