//! `SafeRetry`: wiring, opt-in and precedence. It decides nothing.
//!
//! Request, endpoint, catalogue, client and scope may all have something to say about one operation. Who wins is settled here, once, and
//! becomes a plan that the loop obeys.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{Extensions, Method};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};
use tokio::time::Instant;

use crate::{
    contract::catalog::EndpointCatalog,
    contract::endpoint::{DeadlineCovers, Endpoint},
    contract::hints::HintSources,
    observe::{self, Observer, Telemetry},
    operation::chance::Chance,
    operation::key::OperationKey,
    operation::plan::Plan,
    operation::run,
    outcome::error::Misuse,
    outcome::report::ReportSlot,
    policy::{BudgetLimits, Effect, IdempotencyKey, RetryPolicy},
    proof::witness,
    request::attempt_headers::AttemptHeaders,
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    shared::budget::RetryBudget,
    shared::cooldown::Cooldown,
    shared::reuse_guard::ReuseGuard,
};

/// The middleware. Cheap to clone; clones share the budget.
///
/// # Default
/// [`RetryPolicy::DEFAULT`], a budget of its own with [`BudgetLimits::DEFAULT`], [`Unmarked::ByMethod`], no deadline (the policy's window
/// bounds when a resend may start, and never cuts an attempt in flight) and no attempt limit (an attempt that hangs is not cut, so nothing
/// follows it).
///
/// # Cancellation
/// Dropping the request's future at any point stops everything: there is no later request and no spawned task.
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
pub struct SafeRetry(Arc<Settings>);

#[derive(Clone)]
pub(crate) struct Settings {
    policy: RetryPolicy,
    budget: RetryBudget,
    limit: Option<Duration>,
    attempt_limit: Option<Duration>,
    unmarked: Unmarked,
    default_write: Option<Endpoint>,
    catalog: Option<EndpointCatalog>,
    hints: HintSources,
    cooldown: Option<Cooldown>,
    attempt_headers: Option<Arc<AttemptHeaders>>,
    telemetry: Telemetry,
    reuse_guard: Arc<ReuseGuard>,
    pub(crate) chance: Chance,
}

/// What becomes of requests that no extension, catalogue row or default write marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unmarked {
    /// The method tells the effect: reads and idempotent writes are sent again, everything else only when it cannot have been processed.
    ByMethod,
    /// They are left alone: no resend, no deadline, no budget. Strictly opt-in.
    Untouched,
}

impl SafeRetry {
    /// A middleware with all defaults.
    ///
    /// With the feature `metrics` it describes its metrics to the recorder that is installed by then.
    pub fn new() -> Self {
        observe::describe();
        Self(Arc::new(Settings {
            policy: RetryPolicy::DEFAULT,
            budget: RetryBudget::new(BudgetLimits::DEFAULT),
            limit: None,
            attempt_limit: None,
            unmarked: Unmarked::ByMethod,
            default_write: None,
            catalog: None,
            hints: HintSources::STANDARD,
            cooldown: None,
            attempt_headers: None,
            telemetry: Telemetry::default(),
            reuse_guard: Arc::new(ReuseGuard::new()),
            chance: Chance::default(),
        }))
    }

    /// Sets the policy of every request that brings none of its own, as an extension or by its endpoint
    /// ([`Endpoint::with_policy`]). The request overrules the endpoint, the endpoint overrules this.
    ///
    /// # Default
    /// [`RetryPolicy::DEFAULT`].
    pub fn with_policy(self, policy: RetryPolicy) -> Self {
        self.with(|settings| settings.policy = policy)
    }

    /// Sets the budget. It is a handle: clones of one `SafeRetry` share it, two made by [`new`](Self::new) do not, unless both are given
    /// clones of one handle. Neither request nor endpoint overrules it.
    ///
    /// # Default
    /// One of its own with [`BudgetLimits::DEFAULT`].
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

    /// Sets the hard limit of each operation: queueing, attempts, pauses, probes and the body of the final answer.
    ///
    /// A [`Deadline`] on the request overrules the endpoint's [`with_deadline`](Endpoint::with_deadline), which overrules this. A
    /// [scope](Deadline::scope) caps all of them.
    ///
    /// # Default
    /// None. The policy's window then bounds when a resend may start, and no attempt is cut.
    pub fn with_deadline(self, limit: Duration) -> Self {
        self.with(|settings| settings.limit = Some(limit))
    }

    /// Sets the hard limit of each attempt up to the response head. An attempt never gets more than the operation has left.
    ///
    /// The endpoint's [`with_attempt_limit`](Endpoint::with_attempt_limit) overrules it.
    ///
    /// # Default
    /// None: an attempt may take all that the operation has left, so a hang is never resent.
    pub fn with_attempt_limit(self, limit: Duration) -> Self {
        self.with(|settings| settings.attempt_limit = Some(limit))
    }

    /// Sets what becomes of requests that nothing marks.
    ///
    /// # Default
    /// [`Unmarked::ByMethod`].
    pub fn with_unmarked(self, unmarked: Unmarked) -> Self {
        self.with(|settings| settings.unmarked = unmarked)
    }

    /// Marks every POST, PATCH and other non-idempotent method that nothing else marks with this endpoint. An [`Endpoint`] on the request
    /// overrules a catalogue row, which overrules this.
    ///
    /// # Default
    /// None: unmarked requests go by [`with_unmarked`](Self::with_unmarked).
    pub fn with_default_write(self, endpoint: Endpoint) -> Self {
        self.with(|settings| settings.default_write = Some(endpoint))
    }

    /// Marks every request that a row of the catalogue matches. An [`Endpoint`] on the request overrules its row, and a row overrules the
    /// [default write](Self::with_default_write).
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

    /// Logs the URL's path too (`url.path`), never its query. Paths carry ids, and some carry keys: look at yours first. A name for the
    /// endpoint ([`Endpoint::named`]) tells as much and nothing else.
    pub fn with_path_in_logs(self) -> Self {
        self.with(|settings| settings.telemetry.show_path_in_logs())
    }

    /// Labels the metrics with scheme, host and port too. For clients of a handful of hosts: each one multiplies the time series.
    pub fn with_origin_in_metrics(self) -> Self {
        self.with(|settings| settings.telemetry.show_origin_in_metrics())
    }

    /// Sets which fields of an answer are read as a wait or a veto, where the endpoint does not say.
    ///
    /// # Default
    /// [`HintSources::STANDARD`]: `Retry-After` alone.
    pub fn with_hints(self, sources: HintSources) -> Self {
        self.with(|settings| settings.hints = sources)
    }

    /// Shares what servers ask to wait among all operations of a scope, so that one `Retry-After` holds back everybody it is meant for.
    /// It is a handle: give one to several clients to share it.
    pub fn with_shared_cooldown(self, cooldown: Cooldown) -> Self {
        self.with(|settings| settings.cooldown = Some(cooldown))
    }

    /// Tells the upstream the number of each attempt and the time left for it.
    pub fn with_attempt_headers(self, headers: AttemptHeaders) -> Self {
        self.with(|settings| settings.attempt_headers = Some(Arc::new(headers)))
    }

    /// What an endpoint gets that states nothing of its own, for the audit.
    pub(crate) fn limits(&self) -> Limits {
        Limits { policy: self.0.policy, deadline: self.0.limit, attempt: self.0.attempt_limit }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

/// What a client gives to every endpoint that states nothing of its own.
pub(crate) struct Limits {
    pub(crate) policy: RetryPolicy,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt: Option<Duration>,
}

impl Settings {
    /// Extension > catalogue row > default write; `None` leaves the method to speak.
    fn mark(&self, request: &Request, extensions: &Extensions) -> Option<Endpoint> {
        extensions
            .get::<Endpoint>()
            .cloned()
            .or_else(|| self.catalog.as_ref().and_then(|catalog| catalog.find(request.method(), request.url())))
            .or_else(|| self.default_write.clone().filter(|_| marked_by_default(request.method())))
    }

    /// Whether anything names this request at all.
    fn touches(&self, endpoint: Option<&Endpoint>, extensions: &Extensions) -> bool {
        let named = || extensions.get::<RetryPolicy>().is_some() || extensions.get::<Deadline>().is_some();
        self.unmarked == Unmarked::ByMethod || endpoint.is_some() || named()
    }

    /// Who wins, for policy and limits: request extension > endpoint > client. The scope caps the deadline; the earlier wins.
    async fn plan(&self, endpoint: Option<Endpoint>, request: &mut Request, extensions: &Extensions) -> Result<Plan<'_>, Misuse> {
        let correlation = correlation(request, extensions);
        let contract = endpoint.as_ref().and_then(Endpoint::contract);
        let key = OperationKey::settle(request, contract, extensions.get())?;
        if let (Some(contract), Some(key)) = (contract, &key) {
            let name = endpoint.as_ref().and_then(Endpoint::name).map_or("", AsRef::as_ref);
            self.reuse_guard.admit(contract, key.key(), request, name, Instant::now()).map_err(|_| Misuse::KeyReused)?;
        }
        let chosen = |limit: Option<Duration>| limit.or(self.limit).map_or(Deadline::NONE, Deadline::after);
        let own = extensions.get::<Deadline>().copied().unwrap_or_else(|| chosen(endpoint.as_ref().and_then(Endpoint::limit)));
        let of_method = Effect::of_method(request.method());
        Ok(Plan {
            policy: extensions.get().copied().or(endpoint.as_ref().and_then(Endpoint::policy)).unwrap_or(self.policy),
            effect: endpoint.as_ref().map_or(of_method, Endpoint::effect),
            is_write: endpoint.as_ref().map_or(of_method.is_write(), |endpoint| endpoint.is_write(request.method())),
            deadline: own.earlier(Deadline::of_scope().await),
            deadline_covers: endpoint.as_ref().map_or(DeadlineCovers::Body, Endpoint::deadline_covers),
            attempt_limit: endpoint.as_ref().and_then(Endpoint::attempt_limit).or(self.attempt_limit),
            account: Some(self.budget.account(request)),
            slot: extensions.get::<ReportSlot>().cloned(),
            hints: endpoint.as_ref().and_then(Endpoint::hints).unwrap_or(self.hints),
            cooldown: self.cooldown.as_ref().map(|cooldown| cooldown.place(request)),
            headers: self.attempt_headers.as_deref(),
            correlation,
            key,
            endpoint,
            chance: &self.chance,
        })
    }

    /// The plan of a request that is left alone although it carries something of ours: it goes out once, unbounded, and a [`ReportSlot`] is
    /// told about it.
    fn hands_off(&self, request: &mut Request, extensions: &Extensions) -> Result<Plan<'_>, Misuse> {
        Ok(Plan {
            policy: self.policy.with_attempts(1),
            effect: Effect::NeverResend,
            is_write: Effect::of_method(request.method()).is_write(),
            deadline: Deadline::NONE,
            deadline_covers: DeadlineCovers::Head,
            attempt_limit: None,
            account: None,
            slot: extensions.get::<ReportSlot>().cloned(),
            hints: self.hints,
            cooldown: None,
            headers: None,
            correlation: correlation(request, extensions),
            key: OperationKey::settle(request, None, extensions.get())?,
            endpoint: None,
            chance: &self.chance,
        })
    }
}

#[async_trait]
impl Middleware for SafeRetry {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        if witness::is_inside(extensions) {
            return next.run(request, extensions).await;
        }
        let settings = &*self.0;
        let endpoint = settings.mark(&request, extensions);
        let plan = if settings.touches(endpoint.as_ref(), extensions) {
            settings.plan(endpoint, &mut request, extensions).await
        } else if !carries_ours(extensions) {
            return next.run(request, extensions).await;
        } else {
            settings.hands_off(&mut request, extensions)
        };
        match plan {
            Ok(plan) => run::run(&plan, &settings.telemetry, request, extensions, next).await,
            Err(misuse) => Err(run::misused(misuse, &request, extensions, &settings.telemetry)),
        }
    }
}

/// Whether a request that nothing names carries what has to be looked at all the same.
fn carries_ours(extensions: &Extensions) -> bool {
    extensions.get::<ReportSlot>().is_some() || extensions.get::<IdempotencyKey>().is_some() || extensions.get::<CorrelationId>().is_some()
}

/// Writes the caller's correlation id into the headers. The key comes after it, so that no id can replace a key.
fn correlation(request: &mut Request, extensions: &Extensions) -> Option<CorrelationId> {
    let id = extensions.get::<CorrelationId>()?;
    id.write(request.headers_mut());
    Some(id.clone())
}

fn marked_by_default(method: &Method) -> bool {
    Effect::of_method(method) == Effect::UnprotectedWrite
}

impl Default for SafeRetry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SafeRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeRetry")
            .field("policy", &self.0.policy)
            .field("budget", &self.0.budget)
            .field("limit", &self.0.limit)
            .field("attempt_limit", &self.0.attempt_limit)
            .field("unmarked", &self.0.unmarked)
            .field("default_write", &self.0.default_write)
            .finish_non_exhaustive()
    }
}
