//! What do other libraries do?
//!
//! Measured on one machine with reqwest 0.13.5 and a raw server on loopback, three resends allowed,
//! default settings. The figures of this crate are asserted by `tests/it/wire/baseline.rs`.
//!
//! | a POST without a key, and the server … | reqwest-retry 0.9.1 sends | this crate sends |
//! |---|---|---|
//! | closes after reading the whole request | 4 | 1 |
//! | resets after reading it | 4 | 1 |
//! | answers 503 with `Retry-After: 30` | 4 within 7 ms | 1 |
//! | answers 500, or 501 | 4 | 1 |
//! | answers 303 to a dead host | 4 | 1 |
//! | hangs, client timeout 100 ms | 4 | 1 |
//!
//! | | reqwest-retry | `reqwest::retry` | tower | AWS SDK | this crate |
//! |---|---|---|---|---|---|
//! | looks at method or idempotency | no | by classifier | by policy | assumes tokens | yes, per request |
//! | `Retry-After` | no | no | no | no (own header) | both forms, exact dates |
//! | deadline over the whole operation | between attempts, wall clock | no | no | yes | yes, monotonic, body included |
//! | budget | no | 20 %, rounds up to 100 % | 20 %, rounds up to 100 % | token bucket | exact, per origin |
//! | idempotency keys | no | no | no | yes | yes, with lifetime, 409 and replay |
//! | tells "not processed" from "unknown" | no | two HTTP/2 codes | no | no | yes, with proof |
//! | asks a status endpoint | no | no | no | no | yes |
//!
//! # What this crate leaves to others
//!
//! It does not hedge requests, break circuits or cache. It does not run in the background. On wasm
//! it runs [without evidence](crate#in-a-browser). A cache belongs outside of it
//! ([`with_outside`](crate::SafeClientBuilder::with_outside)), a signer inside
//! ([`with`](crate::SafeClientBuilder::with)).
