//! One fault on every kind of client, with every shape of request.

use std::time::Duration;

use futures_util::future::join_all;

use super::support::*;
use crate::{
    policy::Evidence,
    proof::cause::{Cause, TimeLimit},
    proof::errors,
};

/// Long enough to get a request onto the wire of a busy machine.
pub(super) const SOON: Duration = Duration::from_millis(250);
pub(super) const CLIENT_LIMIT: Cause = Cause::TimedOut(TimeLimit::Client);

/// What the rows of a fault's table share.
pub(super) struct Fault<'a> {
    name: &'a str,
    url: String,
    builder: Box<dyn Fn() -> reqwest::ClientBuilder + 'a>,
    limit: Duration,
    server: Option<&'a Peer>,
}

impl<'a> Fault<'a> {
    pub(super) fn at(name: &'a str, url: impl Into<String>) -> Self {
        Self { name, url: url.into(), builder: Box::new(plain), limit: PATIENCE, server: None }
    }

    pub(super) fn of(name: &'a str, server: &'a Peer) -> Self {
        Self { server: Some(server), ..Self::at(name, server.url("/")) }
    }

    pub(super) fn with(self, builder: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + 'a) -> Self {
        Self { builder: Box::new(move || builder(plain())), ..self }
    }

    /// Cut by a timer of ours.
    pub(super) fn cut(self) -> Self {
        Self { limit: SOON, ..self }
    }

    /// Every road, shape and watch at once; `expect` sees what came out. "Unprocessed" is never
    /// said of a request that arrived.
    pub(super) async fn each(&self, expect: impl Fn(&str, Row, &Came)) {
        let clients =
            Road::ALL.into_iter().flat_map(Row::all_of).map(|row| (row, row.road.client((self.builder)().pool_max_idle_per_host(0))));
        let rows = clients.collect::<Vec<_>>().into_iter().map(|(row, client)| async move {
            let request = row.shape.request(&format!("{}{}", self.url, row.path()));
            (row, witnessed(&client, request, self.limit, row.watch).await)
        });
        let came = join_all(rows).await;
        let arrived = self.server.map(Peer::requests).unwrap_or_default();
        for (row, came) in came {
            let told = format!("{}: {row:?}: {:?}", self.name, came.result);
            let its_own = format!(" /{} ", row.path());
            assert!(came.evidence == Evidence::Unknown || !arrived.iter().any(|request| request.contains(&its_own)), "it arrived: {told}");
            expect(&told, row, &came);
        }
    }

    /// The proof is always the same, and so is the cause unless our own timer ended it.
    pub(super) async fn leaves(&self, proof: Proof, cause: impl Into<Option<Cause>>) {
        let expected = cause.into();
        self.each(|told, row, came| {
            assert_eq!(came.evidence, proof.evidence(row), "{told}");
            assert_eq!(came.error().map(errors::cause), expected, "{told}");
        })
        .await;
    }

    /// The ways it comes out depend on who is faster: only the promise is held.
    pub(super) async fn never_claims_too_much(&self) {
        self.each(|_, _, _| ()).await;
    }
}
