//! Tests among the middlewares, mock servers and frameworks that stand beside this crate, with the
//! real crates. What they find is the table of the guide's page on order.

#![cfg(test)]

mod caches;
mod callers;
mod credentials;
mod mocks;
mod other_retries;
mod rate_limits;
mod services;
mod support;
mod traces;
