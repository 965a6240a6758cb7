//! The clients: both ways to get the crate in, with and without redirects, over every wire, with
//! all that can be shared.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use reqwest::{Url, redirect};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::{
    BudgetLimits, Cooldown, Endpoint, EndpointCatalog, HoldsBack, RetryBudget, Row, SafeRetry, ScopeKey, SendWitness, hints::HintSources,
    policy::AdaptiveLimits,
};

use crate::{
    class::Class,
    holds::Holds,
    journal::Journal,
    purses::Purse,
    tap::Tap,
    upstream::{Authority, Ports},
};

/// How the crate gets into a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    Paved,
    PavedFollowing,
    DropIn,
    DropInFollowing,
    /// Nobody witnesses what becomes of a send.
    DropInUnwitnessed,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    H1,
    H2,
    #[cfg_attr(not(feature = "testing-tls"), expect(dead_code, reason = "no client speaks TLS then"))]
    TlsH1,
    #[cfg_attr(not(feature = "testing-tls"), expect(dead_code, reason = "no client speaks TLS then"))]
    TlsH2,
}

pub(crate) const ROADS: [Road; 5] = [Road::Paved, Road::PavedFollowing, Road::DropIn, Road::DropInFollowing, Road::DropInUnwitnessed];
#[cfg(not(feature = "testing-tls"))]
pub(crate) const WIRES: [Wire; 2] = [Wire::H1, Wire::H2];
#[cfg(feature = "testing-tls")]
pub(crate) const WIRES: [Wire; 4] = [Wire::H1, Wire::H2, Wire::TlsH1, Wire::TlsH2];

/// All members, road by road.
pub(crate) const MEMBERS: usize = ROADS.len() * WIRES.len();

/// One client and what stands around it.
pub(crate) struct Member {
    pub(crate) client: ClientWithMiddleware,
    pub(crate) origin: Url,
    pub(crate) road: Road,
    pub(crate) wire: Wire,
    pub(crate) purse: Arc<Purse>,
    pub(crate) cooldown: Option<(Cooldown, Arc<Holds>)>,
    /// It marks requests by itself, so the caller need not.
    pub(crate) has_catalog: bool,
}

impl Member {
    /// The scope that its cool-down holds back: there is one origin only.
    pub(crate) fn scope(&self) -> ScopeKey {
        ScopeKey::origin(&self.origin)
    }
}

/// A budget that several members share, and the purses that count it once more, one for each
/// origin.
struct Budget {
    handle: RetryBudget,
    purses: [Arc<Purse>; 3],
}

impl Budget {
    fn of(limits: BudgetLimits) -> Self {
        Self::counted(RetryBudget::new(limits), Some(limits))
    }

    fn counted(handle: RetryBudget, limits: Option<BudgetLimits>) -> Self {
        Self { handle, purses: [(); 3].map(|()| Arc::new(Purse::new(limits))) }
    }

    fn purse(&self, wire: Wire) -> Arc<Purse> {
        let place = match wire {
            Wire::H1 => 0,
            Wire::H2 => 1,
            Wire::TlsH1 | Wire::TlsH2 => 2,
        };
        Arc::clone(&self.purses[place])
    }
}

pub(crate) fn build(ports: &Ports, authority: &Authority, journal: &Arc<Journal>) -> Result<Vec<Member>> {
    let budgets = [
        Budget::of(BudgetLimits::DEFAULT),
        Budget::of(BudgetLimits::percent(5).with_reserve(3, 1)),
        Budget::of(BudgetLimits::UNLIMITED),
        Budget::counted(RetryBudget::adaptive(AdaptiveLimits::DEFAULT), None),
    ];
    let mut members = Vec::with_capacity(MEMBERS);
    for (street, road) in ROADS.into_iter().enumerate() {
        for (place, wire) in WIRES.into_iter().enumerate() {
            let origin = ports.origin(wire)?;
            let budget = &budgets[(street + place) % budgets.len()];
            let holds_back = [None, Some(HoldsBack::Resends), Some(HoldsBack::FirstSendsToo)][(street + 2 * place) % 3];
            let cooldown = holds_back.map(|what| (Cooldown::new().holding_back(what), Arc::new(Holds::new(what))));
            let has_catalog = (street + place) % 2 == 0;

            let mut retry = SafeRetry::new()
                .with_budget(budget.handle.clone())
                .with_attempt_limit(Duration::from_millis([150, 250, 400][(2 * street + place) % 3]));
            if street % 2 == 0 {
                retry = retry.with_hints(HintSources::ALL);
            }
            if let Some((cooldown, _)) = &cooldown {
                retry = retry.with_shared_cooldown(cooldown.clone());
            }
            if has_catalog {
                retry = retry.with_catalog(catalog(&origin)?);
            } else if place % 2 == 0 {
                retry = retry.with_default_write(Endpoint::unprotected_write());
            }
            let purse = budget.purse(wire);
            let holds = cooldown.as_ref().map(|(_, holds)| Arc::clone(holds));
            let tap = Tap { journal: Arc::clone(journal), purse: Arc::clone(&purse), holds };
            let client = pave(road, retry, transport(wire, authority), tap)?;
            members.push(Member { client, origin, road, wire, purse, cooldown, has_catalog });
        }
    }
    Ok(members)
}

/// Every class that states something has a row.
fn catalog(origin: &Url) -> Result<EndpointCatalog> {
    let mut rows = Vec::new();
    for class in Class::ALL {
        if let Some(endpoint) = class.endpoint()? {
            rows.push(Row::new(class.method(), format!("/{}/{{operation}}", class.name()), endpoint));
        }
    }
    Ok(EndpointCatalog::new().with_rows(origin.as_str().trim_end_matches('/'), rows)?)
}

fn transport(wire: Wire, authority: &Authority) -> reqwest::ClientBuilder {
    // A pool that keeps connections for longer than the server does, so that some are found closed.
    let builder = authority.alone(reqwest::Client::builder()).no_proxy().connect_timeout(Duration::from_millis(200));
    match wire {
        Wire::H1 | Wire::TlsH1 => builder.http1_only(),
        Wire::H2 => builder.http2_prior_knowledge(),
        Wire::TlsH2 => builder,
    }
}

fn pave(road: Road, retry: SafeRetry, builder: reqwest::ClientBuilder, tap: Tap) -> Result<ClientWithMiddleware> {
    Ok(match road {
        Road::Paved => retry.client(builder).redirects_off().with(tap).build()?,
        Road::PavedFollowing => retry.client(builder).with(tap).build()?,
        Road::DropIn => drop_in(builder.redirect(redirect::Policy::none()), retry, tap)?.with(SendWitness::redirects_off()).build(),
        Road::DropInFollowing => drop_in(builder, retry, tap)?.with(SendWitness::default_redirects()).build(),
        Road::DropInUnwitnessed => drop_in(builder, retry, tap)?.build(),
    })
}

/// The client's own resends would be sends that the crate does not count: the witness asks its
/// users to turn them off.
fn drop_in(builder: reqwest::ClientBuilder, retry: SafeRetry, tap: Tap) -> Result<ClientBuilder> {
    Ok(ClientBuilder::new(builder.retry(reqwest::retry::never()).build()?).with(retry).with(tap))
}
