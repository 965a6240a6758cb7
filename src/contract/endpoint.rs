//! What the caller states about a request: what sending it again does, what protects it, how long
//! it may take.
//!
//! An [`Endpoint`] is a request extension (`.with_extension(..)`), a catalogue row or a client's
//! default write. Whatever carries one is *marked*: its caller gets typed errors that tell "not
//! processed" from "nobody knows".

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode};

use crate::{
    contract::hints::HintSources,
    contract::probe::StatusProbe,
    policy::{Effect, KeyContract, Lapsed, RetryPolicy, RetryStatuses, Signal, Verdict, defaults},
    response::read::Whole,
};

/// The contract the caller states for a request: its effect, its protection and its limits.
///
/// Clones share one allocation, so it is cheap to put on every request.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Endpoint, KeyContract};
/// use std::time::Duration;
///
/// let payments = Endpoint::keyed_write(KeyContract::STRIPE)
///     .named("payments")
///     .with_deadline(Duration::from_secs(20));
/// ```
///
/// It has to travel with the request. `send()` takes it along; `client.execute(builder.build()?)`
/// silently drops all extensions. Whoever needs the request first splits the builder:
/// ```no_run
/// use reqwest_middleware::ClientWithMiddleware;
/// use reqwest_safe_retry::Endpoint;
///
/// # async fn run(client: ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// let mut order = client.post("https://api.example/orders").body("1 coffee").with_extension(Endpoint::unprotected_write());
/// let mut extensions = std::mem::take(order.extensions()); // `build_split` would drop them, too
/// let (client, request) = order.build_split();
/// let answer = client.execute_with_extensions(request?, &mut extensions).await?;
/// # let _ = answer;
/// # Ok(())
/// # }
/// ```
///
/// As a tower `Service` the client takes bare requests, which carry no `Endpoint` and none of the
/// other extensions. What marks those is a [catalogue](crate::EndpointCatalog) or the client's
/// [default write](crate::SafeRetry::with_default_write).
#[derive(Clone)]
#[must_use]
pub struct Endpoint(Arc<Terms>);

#[derive(Clone)]
struct Terms {
    kind: Kind,
    probe: Option<Arc<dyn StatusProbe>>,
    settling: Duration,
    name: Option<Cow<'static, str>>,
    owner: Option<Cow<'static, str>>,
    policy: Option<RetryPolicy>,
    limit: Option<Duration>,
    deadline_covers: DeadlineCovers,
    attempt_limit: Option<Duration>,
    most_body: Option<usize>,
    trusted_refusals: RetryStatuses,
    /// After these the request is made anew by who signs it, and sent again, once.
    refreshed_after: RetryStatuses,
    classifier: Option<Arc<Classifier>>,
    wait_reader: Option<Arc<WaitReader>>,
    failures: Failures,
    hints: Option<HintSources>,
}

type Classifier = dyn Fn(&Answer<'_>) -> Option<Verdict> + Send + Sync;
type WaitReader = dyn Fn(&Answer<'_>) -> Option<Duration> + Send + Sync;

/// What comes out after the last attempt, where its answer is a failure by the endpoint's own
/// verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failures {
    Answers,
    Errors,
}

#[derive(Debug, Clone)]
enum Kind {
    Read,
    IdempotentWrite,
    KeyedWrite(KeyContract),
    UnprotectedWrite,
    NeverResend,
}

/// How far the operation's deadline reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadlineCovers {
    /// Through the body of the final answer.
    Body,
    /// To the response head.
    Head,
}

impl Endpoint {
    /// Reads: nothing changes, so it may be sent again after any failure.
    pub fn read() -> Self {
        Self::of(Kind::Read)
    }

    /// Writes, but applying it twice equals applying it once, whatever the method ([RFC 9110]
    /// §9.2.2).
    ///
    /// [RFC 9110]: https://www.rfc-editor.org/rfc/rfc9110
    #[doc(alias("idempotency", "idempotent"))]
    pub fn idempotent_write() -> Self {
        Self::of(Kind::IdempotentWrite)
    }

    /// Writes, and a second copy would act twice. It is sent again only when no attempt can have
    /// been processed.
    pub fn unprotected_write() -> Self {
        Self::of(Kind::UnprotectedWrite)
    }

    /// Forbids any resend, even one that is proven harmless. Deadline and limits still hold.
    #[doc(alias("no retry", "disable retry"))]
    pub fn never_resend() -> Self {
        Self::of(Kind::NeverResend)
    }

    /// Writes under an idempotency key that the server honours as the contract says. A key is made
    /// when the request carries none.
    #[doc(alias("idempotency", "idempotency key"))]
    pub fn keyed_write(contract: KeyContract) -> Self {
        Self::of(Kind::KeyedWrite(contract))
    }

    /// Writes, and a probe can tell whether it happened:
    /// [`unprotected_write`](Self::unprotected_write) with [`probed_by`](Self::probed_by).
    ///
    /// Give it a deadline well above its [`settling`](Self::settling) time: otherwise every
    /// *absent* comes too early to count, and the operation ends as unknown.
    pub fn probed_write(probe: impl StatusProbe) -> Self {
        Self::unprotected_write().probed_by(probe)
    }

    /// Adds a probe to any write, also to a keyed one whose key may lapse. On a read it has no
    /// effect: reads are just sent again.
    pub fn probed_by(self, probe: impl StatusProbe) -> Self {
        self.with(|terms| terms.probe = Some(Arc::new(probe)))
    }

    /// Sets how long after the last attempt ended a probe's *absent* starts to count; earlier it
    /// means *still in progress*.
    ///
    /// The deadline has to lie well above it, attempt and resend included, or *absent* never
    /// counts. Where there is none, the policy's window takes its place.
    ///
    /// # Default
    /// 5 s ([`defaults::SETTLING`]).
    pub fn settling(self, time: Duration) -> Self {
        self.with(|terms| terms.settling = time)
    }

    /// Names the endpoint in logs, metrics, reports and the audit.
    pub fn named(self, name: impl Into<Cow<'static, str>>) -> Self {
        self.with(|terms| terms.name = Some(name.into()))
    }

    /// Names who owns the state that the endpoint changes, for the audit.
    pub fn owned_by(self, owner: impl Into<Cow<'static, str>>) -> Self {
        self.with(|terms| terms.owner = Some(owner.into()))
    }

    /// Sets the policy of this endpoint. A policy on the request overrules it; it overrules the
    /// client's.
    ///
    /// # Default
    /// The client's.
    pub fn with_policy(self, policy: RetryPolicy) -> Self {
        self.with(|terms| terms.policy = Some(policy))
    }

    /// Sets the deadline: the whole operation ends within this limit, the body of the answer
    /// included.
    ///
    /// A [`Deadline`](crate::Deadline) on the request overrules it, in either direction; it
    /// overrules the client's ([`SafeRetry::with_deadline`](crate::SafeRetry::with_deadline)). A
    /// [scope](crate::Deadline::scope) caps whichever won. [`Duration::MAX`] lifts the client's
    /// default.
    ///
    /// # Default
    /// The client's.
    #[doc(alias = "timeout")]
    pub fn with_deadline(self, limit: Duration) -> Self {
        self.with(|terms| terms.limit = Some(limit))
    }

    /// Ends the deadline at the response head, for downloads and event streams.
    ///
    /// ```
    /// use reqwest_safe_retry::Endpoint;
    /// use std::time::Duration;
    ///
    /// // Five seconds to begin, and as long as it takes to read.
    /// let download = Endpoint::read().with_deadline(Duration::from_secs(5)).deadline_to_head();
    /// # let _ = download;
    /// ```
    pub fn deadline_to_head(self) -> Self {
        self.with(|terms| terms.deadline_covers = DeadlineCovers::Head)
    }

    /// Sets the limit of each attempt up to the response head (through the body with
    /// [`reading_body`](Self::reading_body)).
    ///
    /// It overrules the client's
    /// ([`SafeRetry::with_attempt_limit`](crate::SafeRetry::with_attempt_limit)); [`Duration::MAX`]
    /// lifts that.
    ///
    /// # Default
    /// The client's.
    #[doc(alias = "timeout")]
    pub fn with_attempt_limit(self, limit: Duration) -> Self {
        self.with(|terms| terms.attempt_limit = Some(limit))
    }

    /// Reads the answer's body inside the attempt, up to `most` bytes, so that a lost body is
    /// decided like any other failure.
    ///
    /// The caller gets a normal response with the buffered bytes. A longer body is handed on
    /// unbuffered, never truncated.
    pub fn reading_body(self, most: usize) -> Self {
        self.with(|terms| terms.most_body = Some(most))
    }

    /// States that this status means *not applied* at this endpoint, so that even an unprotected
    /// write may be sent again after it.
    ///
    /// No status but 425 says so by itself: 429 and 503 may come after the effect. Either counts
    /// only from the place the write was sent to, so it takes a client whose redirects are off or
    /// counted: the paved one, or
    /// [`SendWitness::redirects_off`](crate::SendWitness::redirects_off). An answer that no witness
    /// saw, such as one that an inner middleware made by hand, proves nothing.
    ///
    /// It does not say that sending again can help: that is for the policy's statuses, a
    /// [classifier](Self::classified_by), or [`refreshed_after`](Self::refreshed_after).
    pub fn trusting_refusal(self, status: StatusCode) -> Self {
        self.with(|terms| terms.trusted_refusals = terms.trusted_refusals.with(status))
    }

    /// Sends again, once, after this status: whoever signs the request, further in, has seen it and
    /// signs the next attempt with a fresh token. It [trusts](Self::trusting_refusal) the status to
    /// mean *not applied*, so this holds for every write. A second such answer is final.
    ///
    /// A [classifier](Self::classified_by) that has a verdict on the answer overrules it.
    ///
    /// # Default
    /// No status: a 401 is final.
    ///
    /// # Examples
    /// ```
    /// use http::StatusCode;
    /// use reqwest_safe_retry::Endpoint;
    ///
    /// let order = Endpoint::unprotected_write().refreshed_after(StatusCode::UNAUTHORIZED);
    /// ```
    /// The example `auth_refresh` shows the signer.
    pub fn refreshed_after(self, status: StatusCode) -> Self {
        self.trusting_refusal(status).with(|terms| terms.refreshed_after = terms.refreshed_after.with(status))
    }

    /// Reads answers in the endpoint's own way. `None` leaves the answer to the policy's statuses.
    ///
    /// A verdict says what an answer *means*, never what it proves: only
    /// [`trusting_refusal`](Self::trusting_refusal) changes that.
    ///
    /// When nothing more is sent, the last answer comes out as it came, also where the verdict
    /// calls it a failure: `Ok` with a status of 200, if a server says its errors so. With
    /// [`failures_are_errors`](Self::failures_are_errors) such an answer never comes out as `Ok`.
    #[doc(alias("retryable strategy", "classifier"))]
    pub fn classified_by(self, classifier: impl Fn(&Answer<'_>) -> Option<Verdict> + Send + Sync + 'static) -> Self {
        self.with(|terms| terms.classifier = Some(Arc::new(classifier)))
    }

    /// Makes a typed error of the last answer, whatever its status, where the endpoint's verdict
    /// says that it is no result: [`Verdict::Resendable`], [`Verdict::Overloaded`],
    /// [`Verdict::KeyInUse`] or [`Verdict::Forbidden`].
    ///
    /// For servers that answer 200 with an error in the body. Of a write it is
    /// [`OutcomeUnknown`](crate::RetryError::OutcomeUnknown) or
    /// [`Unprocessed`](crate::RetryError::Unprocessed), of a read
    /// [`Unsuccessful`](crate::RetryError::Unsuccessful), each with the report and the status.
    ///
    /// # Default
    /// The last answer comes out as it came.
    ///
    /// ```
    /// use reqwest_safe_retry::{Endpoint, Verdict};
    ///
    /// let search = Endpoint::read().reading_body(1024).failures_are_errors();
    /// let search = search.classified_by(|answer| {
    ///     let failed = answer.body().is_some_and(|body| body.starts_with(b"{\"error\""));
    ///     failed.then_some(Verdict::Resendable)
    /// });
    /// # let _ = search;
    /// ```
    pub fn failures_are_errors(self) -> Self {
        self.with(|terms| terms.failures = Failures::Errors)
    }

    /// Reads the wait that a server asks for in its own way, such as one in the body, which needs
    /// [`reading_body`](Self::reading_body). The longer of it and of what the
    /// [header fields](Self::with_hints) say counts.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{Endpoint, presets};
    ///
    /// let prediction = Endpoint::read().reading_body(64 * 1024).waits_read_by(presets::google_retry_delay);
    /// ```
    pub fn waits_read_by(self, reader: impl Fn(&Answer<'_>) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.with(|terms| terms.wait_reader = Some(Arc::new(reader)))
    }

    /// Sets which fields of an answer are read as a wait or a veto, instead of the client's
    /// setting.
    ///
    /// # Default
    /// The client's, and there [`HintSources::STANDARD`]: `Retry-After` alone.
    #[doc(alias = "retry after")]
    pub fn with_hints(self, sources: HintSources) -> Self {
        self.with(|terms| terms.hints = Some(sources))
    }

    fn of(kind: Kind) -> Self {
        Self(Arc::new(Terms {
            kind,
            probe: None,
            settling: defaults::SETTLING,
            name: None,
            owner: None,
            policy: None,
            limit: None,
            deadline_covers: DeadlineCovers::Body,
            attempt_limit: None,
            most_body: None,
            trusted_refusals: RetryStatuses::NONE,
            refreshed_after: RetryStatuses::NONE,
            classifier: None,
            wait_reader: None,
            failures: Failures::Answers,
            hints: None,
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    #[inline]
    pub(crate) fn effect(&self) -> Effect {
        let is_probed = self.0.probe.is_some();
        match &self.0.kind {
            Kind::Read => Effect::Read,
            Kind::IdempotentWrite => Effect::IdempotentWrite,
            Kind::KeyedWrite(contract) => Effect::KeyedWrite {
                remembered_for: contract.remembered_for(),
                lapsed: if is_probed { Lapsed::Probe } else { Lapsed::Stop },
            },
            Kind::UnprotectedWrite if is_probed => Effect::ProbedWrite,
            Kind::UnprotectedWrite => Effect::UnprotectedWrite,
            Kind::NeverResend => Effect::NeverResend,
        }
    }

    /// Whether the operation changes anything. [`never_resend`](Self::never_resend) says nothing
    /// about that, so the method does.
    #[inline]
    pub(crate) fn is_write(&self, method: &Method) -> bool {
        match self.0.kind {
            Kind::Read => false,
            Kind::IdempotentWrite | Kind::KeyedWrite(_) | Kind::UnprotectedWrite => true,
            Kind::NeverResend => Effect::of_method(method).is_write(),
        }
    }

    pub(crate) fn contract(&self) -> Option<&KeyContract> {
        match &self.0.kind {
            Kind::KeyedWrite(contract) => Some(contract),
            Kind::Read | Kind::IdempotentWrite | Kind::UnprotectedWrite | Kind::NeverResend => None,
        }
    }

    pub(crate) fn probe(&self) -> Option<&dyn StatusProbe> {
        self.0.probe.as_deref()
    }

    pub(crate) fn settling_time(&self) -> Duration {
        self.0.settling
    }

    pub(crate) fn name(&self) -> Option<&Cow<'static, str>> {
        self.0.name.as_ref()
    }

    pub(crate) fn owner(&self) -> Option<&str> {
        self.0.owner.as_deref()
    }

    pub(crate) fn policy(&self) -> Option<&RetryPolicy> {
        self.0.policy.as_ref()
    }

    /// Whether an answer means at this endpoint what it means anywhere, so that a first answer is
    /// read by status, hints and what its contract says of the key, and nothing but a key is to be
    /// settled before the first send.
    #[inline]
    pub(crate) fn reads_as_any(&self) -> bool {
        let Terms { kind, probe, classifier, wait_reader, most_body, refreshed_after, .. } = &*self.0;
        let unguarded = match kind {
            Kind::Read | Kind::IdempotentWrite | Kind::UnprotectedWrite | Kind::NeverResend => true,
            Kind::KeyedWrite(contract) => !contract.guards_reuse(),
        };
        let plainly_read = classifier.is_none() && wait_reader.is_none() && *refreshed_after == RetryStatuses::NONE;
        unguarded && probe.is_none() && plainly_read && most_body.is_none()
    }

    pub(crate) fn limit(&self) -> Option<Duration> {
        self.0.limit
    }

    pub(crate) fn deadline_covers(&self) -> DeadlineCovers {
        self.0.deadline_covers
    }

    pub(crate) fn attempt_limit(&self) -> Option<Duration> {
        self.0.attempt_limit
    }

    pub(crate) fn most_body(&self) -> Option<usize> {
        self.0.most_body
    }

    pub(crate) fn trusts_refusal(&self, status: StatusCode) -> bool {
        self.0.trusted_refusals.contains(status)
    }

    pub(crate) fn hints(&self) -> Option<HintSources> {
        self.0.hints
    }

    pub(crate) fn classify(&self, answer: &Answer<'_>, refreshed: bool) -> Option<Verdict> {
        let own = self.0.classifier.as_ref().and_then(|classify| classify(answer));
        let once = || if refreshed { Verdict::Final } else { Verdict::Resendable };
        own.or_else(|| self.refreshes_after(answer.status()).then(once))
    }

    /// Whether after this status the request is signed anew and sent again.
    pub(crate) fn refreshes_after(&self, status: StatusCode) -> bool {
        self.0.refreshed_after.contains(status)
    }

    pub(crate) fn wait(&self, answer: &Answer<'_>) -> Option<Duration> {
        self.0.wait_reader.as_ref().and_then(|read| read(answer))
    }

    /// Whether an operation that ends with this signal ends without a result.
    pub(crate) fn makes_an_error_of(&self, signal: Signal) -> bool {
        match signal {
            Signal::Resendable(_) | Signal::Overloaded(_) | Signal::KeyInUse | Signal::Forbidden => self.0.failures == Failures::Errors,
            Signal::Answered(_)
            | Signal::Final(_)
            | Signal::Failed
            | Signal::Broken
            | Signal::BodyLost(_)
            | Signal::ProbedAbsent
            | Signal::SentBefore => false,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("effect", &self.effect())
            .field("name", &self.0.name)
            .field("owner", &self.0.owner)
            .field("limit", &self.0.limit)
            .field("attempt_limit", &self.0.attempt_limit)
            .finish_non_exhaustive()
    }
}

/// An answer as a classifier sees it: status, headers, and body and trailers when
/// [`Endpoint::reading_body`] has read them.
pub struct Answer<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    read: Option<&'a Whole>,
}

impl<'a> Answer<'a> {
    pub(crate) const fn new(status: StatusCode, headers: &'a HeaderMap, read: Option<&'a Whole>) -> Self {
        Self { status, headers, read }
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    #[must_use]
    pub const fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The body, when the endpoint reads bodies and this one was short enough.
    #[must_use]
    pub fn body(&self) -> Option<&'a [u8]> {
        self.read.map(|whole| &*whole.body)
    }

    /// The trailers that followed the body, such as `grpc-status`, where it was read and there were
    /// any ([RFC 9110 §6.5](https://www.rfc-editor.org/rfc/rfc9110#section-6.5)).
    #[must_use]
    pub fn trailers(&self) -> Option<&'a HeaderMap> {
        self.read.and_then(|whole| whole.trailers.as_ref())
    }
}

impl fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}
