//! `SafeRetry`: wiring and opt-in. It decides nothing, and settles nothing: that is the plan's.

use std::{fmt, sync::Arc, time::Duration};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

use crate::{
    contract::catalog::EndpointCatalog,
    contract::endpoint::Endpoint,
    contract::hints::HintSources,
    observe::{self, Observer},
    operation::{self, plan::Plan, settings::Settings},
    outcome::advice::Advice,
    outcome::report::ReportSlot,
    platform::BoxFuture,
    policy::{IdempotencyKey, RetryPolicy},
    proof::witness::{self, LeftAlone},
    request::attempt_headers::AttemptHeaders,
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    request::sent_before::SentBefore,
    shared::budget::RetryBudget,
    shared::cooldown::Cooldown,
    shared::scope::{ScopeKey, Scoping},
};

/// The middleware. Cheap to clone; clones share the budget.
///
/// # Default
/// [`RetryPolicy::DEFAULT`], a budget of its own with
/// [`BudgetLimits::DEFAULT`](crate::BudgetLimits::DEFAULT), [`Unmarked::ByMethod`], no deadline
/// (the policy's window bounds when a resend may start, and never cuts an attempt in flight) and no
/// attempt limit (an attempt that hangs is not cut, so nothing follows it).
///
/// # Cancellation
/// Dropping the request's future at any point stops everything: there is no later request and no
/// spawned task.
///
/// # Examples
/// ```no_run
/// use reqwest_safe_retry::{Endpoint, KeyContract, RetryPolicy, SafeRetry};
/// use std::time::Duration;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = SafeRetry::new()
///     .with_deadline(Duration::from_secs(20))
///     .with_attempt_limit(Duration::from_secs(5)) // without it, only the deadline ends a hang, and nothing is left for a resend
///     .with_policy(RetryPolicy::DEFAULT.with_attempts(4))
///     .with_default_write(Endpoint::keyed_write(KeyContract::STRIPE)); // only if the server honours the key
/// let client = retry.client(reqwest::Client::builder()).redirects_off().build()?;
///
/// let answer = client.post("https://api.example/orders").body("1 coffee").send().await?;
/// println!("{}", answer.status());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
#[doc(alias("retry", "retry after", "retries"))]
pub struct SafeRetry {
    settings: Arc<Settings>,
    unmarked: Unmarked,
}

/// What becomes of requests that no extension, catalogue row or default write marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unmarked {
    /// The method tells the effect: reads and idempotent writes are sent again, everything else
    /// only when it cannot have been processed.
    ByMethod,
    /// They are left alone: no resend, no deadline, no budget. Strictly opt-in.
    Untouched,
}

impl SafeRetry {
    /// A middleware with all defaults.
    ///
    /// With the feature `metrics` it describes its metrics to the recorder that is installed by
    /// then.
    pub fn new() -> Self {
        observe::describe();
        Self { settings: Arc::default(), unmarked: Unmarked::ByMethod }
    }

    /// Sets the policy of every request that brings none of its own, as an extension or by its
    /// endpoint ([`Endpoint::with_policy`]). The request overrules the endpoint, the endpoint
    /// overrules this.
    ///
    /// # Default
    /// [`RetryPolicy::DEFAULT`].
    #[doc(alias("max retries", "backoff"))]
    pub fn with_policy(self, policy: RetryPolicy) -> Self {
        self.with(|settings| settings.policy = policy)
    }

    /// Sets the budget. It is a handle: clones of one `SafeRetry` share it, two made by
    /// [`new`](Self::new) do not, unless both are given clones of one handle. Neither request nor
    /// endpoint overrules it.
    ///
    /// # Default
    /// One of its own with [`BudgetLimits::DEFAULT`](crate::BudgetLimits::DEFAULT).
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{RetryBudget, SafeRetry};
    ///
    /// let budget = RetryBudget::default();
    /// let orders = SafeRetry::new().with_budget(budget.clone());
    /// let menu = SafeRetry::new().with_budget(budget);
    /// ```
    pub fn with_budget(self, budget: RetryBudget) -> Self {
        self.with(|settings| settings.budget = budget)
    }

    /// Sets the hard limit of each operation: queueing, attempts, pauses, probes and the body of
    /// the final answer.
    ///
    /// A [`Deadline`] on the request overrules the endpoint's
    /// [`with_deadline`](Endpoint::with_deadline), which overrules this. A [scope](Deadline::scope)
    /// caps all of them.
    ///
    /// # Default
    /// None. The policy's window then bounds when a resend may start, and no attempt is cut.
    #[doc(alias("timeout", "total timeout"))]
    pub fn with_deadline(self, limit: Duration) -> Self {
        self.with(|settings| settings.limit = Some(limit))
    }

    /// Sets the hard limit of each attempt up to the response head. An attempt never gets more than
    /// the operation has left.
    ///
    /// With it, no resend relies on a key that the server may forget before the attempt has ended.
    /// Without it an attempt has no known end, and the key only has to be remembered at its start:
    /// for contracts that remember for seconds, set one.
    ///
    /// The endpoint's [`with_attempt_limit`](Endpoint::with_attempt_limit) overrules it.
    ///
    /// # Default
    /// None: an attempt may take all that the operation has left, so a hang is never resent.
    #[doc(alias("timeout", "attempt timeout"))]
    pub fn with_attempt_limit(self, limit: Duration) -> Self {
        self.with(|settings| settings.attempt_limit = Some(limit))
    }

    /// Sets what becomes of requests that nothing marks.
    ///
    /// # Default
    /// [`Unmarked::ByMethod`].
    pub fn with_unmarked(self, unmarked: Unmarked) -> Self {
        Self { unmarked, ..self }
    }

    /// Marks every POST, PATCH and other non-idempotent method that nothing else marks with this
    /// endpoint. An [`Endpoint`] on the request overrules a catalogue row, which overrules this.
    ///
    /// # Default
    /// None: unmarked requests go by [`with_unmarked`](Self::with_unmarked).
    pub fn with_default_write(self, endpoint: Endpoint) -> Self {
        self.with(|settings| settings.default_write = Some(endpoint))
    }

    /// Marks every request that a row of the catalogue matches. An [`Endpoint`] on the request
    /// overrules its row, and a row overrules the [default write](Self::with_default_write).
    ///
    /// # Default
    /// None.
    pub fn with_catalog(self, catalog: EndpointCatalog) -> Self {
        self.with(|settings| settings.catalog = Some(catalog))
    }

    /// Adds an observer of every decision.
    pub fn with_observer(self, observer: impl Observer) -> Self {
        self.with(|settings| settings.telemetry.add(observer))
    }

    /// Keeps this advice out of reports and logs: for a program that means it so.
    ///
    /// # Default
    /// All advice is given.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{Advice, SafeRetry};
    ///
    /// // A command that builds one client for each of many hosts, and then exits.
    /// let retry = SafeRetry::new().without_advice(Advice::BudgetNotShared);
    /// ```
    pub fn without_advice(self, advice: Advice) -> Self {
        self.with(|settings| settings.telemetry.silence(advice))
    }

    /// Logs the URL's path too (`url.path`), never its query. Paths carry ids, and some carry keys:
    /// look at yours first. A name for the endpoint ([`Endpoint::named`]) tells as much and nothing
    /// else.
    pub fn with_path_in_logs(self) -> Self {
        self.with(|settings| settings.telemetry.show_path_in_logs())
    }

    /// Labels the metrics with scheme, host and port too. For clients of a handful of hosts: each
    /// one multiplies the time series.
    ///
    /// ```
    /// use reqwest_safe_retry::SafeRetry;
    ///
    /// let retry = SafeRetry::new().with_path_in_logs().with_origin_in_metrics();
    /// # let _ = retry;
    /// ```
    pub fn with_origin_in_metrics(self) -> Self {
        self.with(|settings| settings.telemetry.show_origin_in_metrics())
    }

    /// Sets which fields of an answer are read as a wait or a veto, where the endpoint does not
    /// say.
    ///
    /// # Default
    /// [`HintSources::STANDARD`]: `Retry-After` alone.
    pub fn with_hints(self, sources: HintSources) -> Self {
        self.with(|settings| settings.hints = sources)
    }

    /// Shares what servers ask to wait among all operations of a scope, so that one `Retry-After`
    /// holds back everybody it is meant for. It is a handle: give one to several clients to share
    /// it.
    #[doc(alias("retry after", "rate limit"))]
    pub fn with_shared_cooldown(self, cooldown: Cooldown) -> Self {
        self.with(|settings| settings.cooldown = Some(cooldown))
    }

    /// Replaces what an account is to the reuse guard of a
    /// [contract](crate::KeyContract::with_reuse_guard): not the origin, but what this function
    /// says of each operation's first request. For a client that serves several tenants, whose keys
    /// may be alike.
    ///
    /// The function sees the request as it reaches this middleware, so without the headers that
    /// signers further in add.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{SafeRetry, ScopeKey};
    ///
    /// let plugin = SafeRetry::new().with_key_accounts(|request| {
    ///     ScopeKey::of(&(ScopeKey::origin(request.url()), request.headers().get("authorization")))
    /// });
    /// ```
    pub fn with_key_accounts(self, account: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.accounts = Scoping::By(Arc::new(account)))
    }

    /// Tells the upstream the number of each attempt and the time left for it.
    pub fn with_attempt_headers(self, headers: AttemptHeaders) -> Self {
        self.with(|settings| settings.attempt_headers = Some(Arc::new(headers)))
    }

    /// What an endpoint gets that states nothing of its own, for the audit.
    pub(crate) fn limits(&self) -> Limits {
        let settings = &*self.settings;
        Limits { policy: settings.policy, deadline: settings.limit, attempt: settings.attempt_limit }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Whether anything names this request at all, so that it is not left alone.
    fn touches(&self, endpoint: Option<&Endpoint>, extensions: &Extensions) -> bool {
        let named = || {
            extensions.get::<RetryPolicy>().is_some() || extensions.get::<Deadline>().is_some() || extensions.get::<SentBefore>().is_some()
        };
        self.unmarked == Unmarked::ByMethod || endpoint.is_some() || named()
    }
}

/// What a client gives to every endpoint that states nothing of its own.
pub(crate) struct Limits {
    pub(crate) policy: RetryPolicy,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt: Option<Duration>,
}

// Not by `async_trait`: a future in another would be copied into its box.
impl Middleware for SafeRetry {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> BoxFuture<'f, reqwest_middleware::Result<Response>>
    where
        Self: 'f,
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        if witness::is_inside(extensions) {
            return next.run(request, extensions);
        }
        let settings = &*self.settings;
        let endpoint = Plan::endpoint(settings, &request, extensions);
        if self.touches(endpoint.as_ref(), extensions) {
            Box::pin(operation::carry_out(settings, endpoint, request, extensions, next))
        } else if carries_ours(extensions) {
            Box::pin(operation::hands_off(settings, request, extensions, next))
        } else if settings.strays.is_some() {
            Box::pin(async move {
                let (mark, _on_its_way) = LeftAlone::while_kept();
                extensions.insert(mark);
                let result = next.run(request, extensions).await;
                extensions.remove::<LeftAlone>();
                result
            })
        } else {
            next.run(request, extensions)
        }
    }
}

/// Whether a request that nothing names carries what has to be looked at all the same.
fn carries_ours(extensions: &Extensions) -> bool {
    extensions.get::<ReportSlot>().is_some() || extensions.get::<IdempotencyKey>().is_some() || extensions.get::<CorrelationId>().is_some()
}

impl Default for SafeRetry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SafeRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeRetry")
            .field("policy", &self.settings.policy)
            .field("budget", &self.settings.budget)
            .field("limit", &self.settings.limit)
            .field("attempt_limit", &self.settings.attempt_limit)
            .field("unmarked", &self.unmarked)
            .field("default_write", &self.settings.default_write)
            .finish_non_exhaustive()
    }
}
