//! What is settled about an operation before its first attempt: who won where several had a say, so
//! that nobody asks again later.
//!
//! * **Endpoint**: extension of the request > catalogue row > default write. Where none of them
//!   speaks, the method tells the effect.
//! * **Policy and limits**: extension of the request > endpoint > client.
//! * **Deadline**: as above, and then the scope caps whichever won.

use std::{
    ops::Deref,
    sync::{Arc, LazyLock},
    time::Duration,
};

use http::{Extensions, HeaderMap, Method, StatusCode};
use reqwest::{Request, Url};

use crate::{
    contract::endpoint::{DeadlineCovers, Endpoint},
    contract::hints::HintSources,
    observe::{self, OperationFacts},
    operation::key::OperationKey,
    operation::settings::Settings,
    outcome::advice::Advice,
    outcome::error::Misuse,
    outcome::report::ReportSlot,
    platform::Instant,
    policy::{Draw, Effect, IdempotencyKey, RetryPolicy, Signal, defaults},
    proof::witness::{Terms, Watch},
    request::attempt_headers::AttemptHeaders,
    request::call::Call,
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    request::key_fields::carries_a_key,
    request::method_override,
    request::replay::{ReplayBody, ReplayRequest},
    request::sent_before::SentBefore,
    shared::budget::{BudgetAccount, Withdrawal},
    shared::cooldown::CooldownPlace,
    shared::reuse_guard::GuardedKey,
};

/// Everything that was settled before the first attempt.
pub(crate) struct Plan<'a> {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) policy: Policy<'a>,
    pub(crate) effect: Effect,
    pub(crate) is_write: bool,
    pub(crate) deadline: Deadline,
    pub(crate) deadline_covers: DeadlineCovers,
    pub(crate) attempt_limit: Option<Duration>,
    /// Present on marked requests.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) key: Option<Arc<OperationKey>>,
    /// Present where the contract guards its keys.
    pub(crate) guarded: Option<GuardedKey<'a>>,
    /// Whether an earlier process may have sent the operation.
    pub(crate) was_sent_before: bool,
    /// Absent on requests that are left alone.
    pub(crate) account: Option<BudgetAccount<'a>>,
    pub(crate) slot: Option<ReportSlot>,
    pub(crate) hints: HintSources,
    pub(crate) cooldown: Option<CooldownPlace<'a>>,
    pub(crate) headers: Option<&'a AttemptHeaders>,
    /// Sent and logged alike on every attempt.
    pub(crate) correlation: Option<Box<CorrelationId>>,
    /// What is the client's alone.
    pub(crate) settings: &'a Settings,
    /// What was noticed about the limits.
    pub(crate) advice: Option<Advice>,
}

impl<'a> Plan<'a> {
    /// The endpoint that speaks for a request. `None` leaves the method to speak.
    pub(crate) fn endpoint(settings: &Settings, request: &Request, extensions: &Extensions) -> Option<Endpoint> {
        let row = || settings.catalog.as_ref().and_then(|catalog| catalog.find(request.method(), request.url()));
        let default_write = || settings.default_write.clone().filter(|_| effect_alone(request) == Effect::UnprotectedWrite);
        extensions.get().cloned().or_else(row).or_else(default_write)
    }

    /// The plan of a request. Its key and its correlation id are written into its headers.
    ///
    /// # Errors
    /// The request is used wrongly, so nothing may be sent.
    pub(crate) fn settle(
        settings: &'a Settings,
        endpoint: Option<Endpoint>,
        request: &mut Request,
        extensions: &Extensions,
    ) -> Result<Self, Misuse> {
        let correlation = correlation(request, extensions);
        let stated = endpoint.as_ref();
        let sent_before = extensions.get::<SentBefore>().copied();
        let key = key(stated, request, extensions, sent_before)?;
        let alone = effect_alone(request);
        let effect = stated.map_or(alone, Endpoint::effect);
        // A key that is made now is not the one that it was sent under before.
        let key_is_news = sent_before.is_some() && key.as_deref().is_some_and(OperationKey::was_made);
        Ok(Self {
            method: request.method().clone(),
            url: request.url().clone(),
            policy: Policy::of(settings, stated, extensions),
            effect: if key_is_news { effect.without_key() } else { effect },
            is_write: stated.map_or(alone.is_write(), |endpoint| endpoint.is_write(request.method())),
            deadline: deadline(settings, stated, extensions, Instant::now()).earlier(Deadline::of_scope()),
            deadline_covers: stated.map_or(DeadlineCovers::Body, Endpoint::deadline_covers),
            attempt_limit: attempt_limit(settings, stated),
            advice: advice_on_limits(settings, stated, effect).filter(|_| extensions.get::<Deadline>().is_none()),
            account: Some(settings.budget.account(request)),
            slot: extensions.get().cloned(),
            hints: hints(settings, stated),
            cooldown: settings.cooldown.as_ref().map(|cooldown| cooldown.place(request)),
            headers: settings.attempt_headers.as_deref(),
            settings,
            was_sent_before: sent_before.is_some() || key.as_deref().is_some_and(OperationKey::was_used_before),
            guarded: guarded(settings, stated, key.as_deref(), request),
            correlation,
            key,
            endpoint,
        })
    }

    /// The plan of a request that is left alone although it carries something of ours: it goes out
    /// once, unbounded, and a [`ReportSlot`] is told about it, unless a `SafeRetry` further in
    /// tells more.
    ///
    /// # Errors
    /// The request carries a key, and no contract says that the server honours one.
    pub(crate) fn hands_off(settings: &'a Settings, request: &mut Request, extensions: &Extensions) -> Result<Self, Misuse> {
        let slot: Option<ReportSlot> = extensions.get().cloned();
        // What another operation left in it is not taken for what comes from further in.
        drop(slot.as_ref().and_then(ReportSlot::take));
        Ok(Self {
            method: request.method().clone(),
            url: request.url().clone(),
            policy: Policy::Own(Box::new(settings.policy.with_attempts(1))),
            effect: Effect::NeverResend,
            is_write: effect_alone(request).is_write(),
            deadline: Deadline::NONE,
            deadline_covers: DeadlineCovers::Head,
            attempt_limit: None,
            account: None,
            slot,
            hints: settings.hints,
            cooldown: None,
            headers: None,
            settings,
            correlation: correlation(request, extensions),
            key: OperationKey::settle(request, None, extensions.get(), None)?.map(Arc::new),
            guarded: None,
            was_sent_before: false,
            endpoint: None,
            advice: None,
        })
    }

    /// The plan of a request that was sent before anything but this was settled.
    pub(crate) fn after_the_first(light: &Light<'a>, request: &Request, extensions: &Extensions) -> Self {
        let (settings, stated) = (light.settings, light.endpoint.as_ref());
        Self {
            method: request.method().clone(),
            url: request.url().clone(),
            policy: Policy::of(settings, stated, extensions),
            effect: light.effect,
            is_write: light.is_write,
            deadline: light.deadline,
            deadline_covers: stated.map_or(DeadlineCovers::Body, Endpoint::deadline_covers),
            attempt_limit: light.attempt_limit,
            advice: None,
            account: Some(light.account),
            slot: None,
            hints: hints(settings, stated),
            cooldown: None,
            headers: None,
            settings,
            was_sent_before: false,
            correlation: None,
            key: light.key.clone(),
            guarded: None,
            endpoint: light.endpoint.clone(),
        }
    }

    /// The body is watched where the verdict matters: what a failed read proves changes nothing.
    /// What an HTTP/2 server refused is resent by nobody but this crate, unless the request is left
    /// alone.
    pub(crate) fn watch(&self) -> Watch {
        if self.is_left_alone() { Watch::Errors } else { watch(self.is_write) }
    }

    /// Whether any attempt can follow the first.
    pub(crate) fn may_resend(&self) -> bool {
        self.policy.attempts() > 1 && self.effect.allows_resends()
    }

    /// Strictly opt-in, and nothing named the request: only its slot is told.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.account.is_none()
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.probe().is_some())
    }

    /// Takes the token for one resend or probe; `None`: the budget is spent.
    pub(crate) fn withdraw(&self) -> Option<Withdrawal> {
        self.account.and_then(|account| account.withdraw(Instant::now(), self.draw()))
    }

    pub(crate) fn draw(&self) -> Draw {
        self.settings.chance.draw()
    }

    /// What telemetry tells about the operation.
    pub(crate) fn facts(&self) -> OperationFacts<'_> {
        OperationFacts {
            method: &self.method,
            url: &self.url,
            endpoint: self.endpoint.as_ref().and_then(Endpoint::name),
            correlation: self.correlation.as_deref(),
            key: self.key.as_deref().map(OperationKey::key),
            account: self.account,
            deadline: self.deadline,
            is_write: self.is_write,
        }
    }

    /// When the last attempt has to be over: a tenth of the deadline is kept for the last look of a
    /// write that can be asked about.
    pub(crate) fn sending_until(&self) -> Deadline {
        match self.deadline.instant() {
            Some(instant) if self.is_write && self.has_probe() => {
                let kept = self.deadline.time_left() / defaults::LAST_LOOK_DIVISOR;
                Deadline::at(instant.checked_sub(kept).unwrap_or(instant))
            }
            _ => self.deadline,
        }
    }
}

/// What is settled about a request for which nothing else has to be: neither before its first send,
/// nor after an answer that no resend could improve. Whatever it was that came back otherwise, the
/// rest is settled then.
pub(crate) struct Light<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) effect: Effect,
    pub(crate) is_write: bool,
    pub(crate) deadline: Deadline,
    pub(crate) attempt_limit: Option<Duration>,
    /// Of a keyed write; it was never sent before.
    pub(crate) key: Option<Arc<OperationKey>>,
    pub(crate) account: BudgetAccount<'a>,
}

impl<'a> Light<'a> {
    /// `None` where more has to be settled first. The request is as it was, but that the key of an
    /// earlier pass stands in its headers; the key of any other that is settled is written there.
    ///
    /// # Errors
    /// As [`Plan::settle`].
    // Inlined, so that what is settled is not copied.
    #[inline]
    pub(crate) fn settle(
        settings: &'a Settings,
        stated: Option<&Endpoint>,
        request: &mut Request,
        extensions: &Extensions,
        now: Instant,
    ) -> Option<Result<Self, Misuse>> {
        let marks = other_marks(extensions);
        let asks_for_more = settings.cooldown.is_some() || settings.attempt_headers.is_some() || settings.telemetry.has_observers();
        if asks_for_more || stated.is_some_and(|endpoint| !endpoint.reads_as_any()) || says_more(marks) || observe::hears_what_goes_well() {
            return None;
        }
        let alone = effect_alone(request);
        let effect = stated.map_or(alone, Endpoint::effect);
        let is_write = stated.map_or(alone.is_write(), |endpoint| endpoint.is_write(request.method()));
        let key_of_hand = is_write && stated.is_none() && carries_a_key(request.headers());
        let may_resend = policy(settings, stated, marks).attempts() > 1 && effect.allows_resends();
        if key_of_hand || !may_resend || advice_on_limits(settings, stated, effect).is_some() {
            return None;
        }
        let deadline = deadline(settings, stated, marks, now).earlier(Deadline::of_scope());
        let is_stream = request.body().is_some_and(|body| body.as_bytes().is_none());
        if deadline.has_passed(now) || settings.budget.is_one_of_many() || is_stream {
            return None;
        }
        let key = match stated.and_then(Endpoint::contract) {
            Some(_) => match key(stated, request, extensions, None) {
                Ok(Some(key)) if key.was_used_before() => return None,
                Ok(key) => key,
                Err(misuse) => return Some(Err(misuse)),
            },
            None => None,
        };
        let (endpoint, attempt_limit) = (stated.cloned(), attempt_limit(settings, stated));
        // After the key: the caller's function may look at it.
        let account = settings.budget.account(request);
        Some(Ok(Self { settings, endpoint, effect, is_write, deadline, attempt_limit, key, account }))
    }

    /// The terms of the first attempt: nothing was sent before it, so it may be redirected
    /// anywhere.
    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        let promised = self.key.as_deref().map(OperationKey::written);
        Terms { promised, ..watch(self.is_write).into() }
    }

    /// Whether an answer is the operation's result, unless its hints say more.
    #[inline]
    pub(crate) fn is_final(&self, status: StatusCode, headers: &HeaderMap, extensions: &Extensions) -> bool {
        let policy = policy(self.settings, self.endpoint.as_ref(), extensions);
        let of_the_key = || self.endpoint.as_ref().and_then(Endpoint::contract)?.answer(status, headers);
        !status.is_client_error() && !status.is_server_error() && policy.settles(Signal::Answered(status)) && of_the_key().is_none()
    }

    #[inline]
    pub(crate) fn hints(&self) -> HintSources {
        hints(self.settings, self.endpoint.as_ref())
    }

    /// What telemetry tells about the operation.
    pub(crate) fn facts<'f>(&'f self, request: &'f Request) -> OperationFacts<'f> {
        OperationFacts {
            method: request.method(),
            url: request.url(),
            endpoint: self.endpoint.as_ref().and_then(Endpoint::name),
            correlation: None,
            key: self.key.as_deref().map(OperationKey::key),
            account: Some(self.account),
            deadline: self.deadline,
            is_write: self.is_write,
        }
    }
}

/// The policy of an operation. It is large, and mostly the client's.
pub(crate) enum Policy<'a> {
    Client(&'a RetryPolicy),
    Own(Box<RetryPolicy>),
}

impl<'a> Policy<'a> {
    fn of(settings: &'a Settings, endpoint: Option<&Endpoint>, extensions: &Extensions) -> Self {
        match extensions.get().or(endpoint.and_then(Endpoint::policy)) {
            Some(own) => Self::Own(Box::new(*own)),
            None => Self::Client(&settings.policy),
        }
    }
}

impl Deref for Policy<'_> {
    type Target = RetryPolicy;

    fn deref(&self) -> &RetryPolicy {
        match self {
            Self::Client(policy) => policy,
            Self::Own(policy) => policy,
        }
    }
}

/// The extensions, or none where all that is in them is an endpoint and a call, which are known by
/// then: to ask them for every other mark that a caller may have set costs more.
fn other_marks(extensions: &Extensions) -> &Extensions {
    static NOTHING: LazyLock<Extensions> = LazyLock::new(Extensions::new);
    let known = || usize::from(extensions.get::<Endpoint>().is_some()) + usize::from(extensions.get::<Call>().is_some());
    if (1..=2).contains(&extensions.len()) && known() == extensions.len() { &NOTHING } else { extensions }
}

/// Whether the request carries what is settled or told before or after every send.
fn says_more(extensions: &Extensions) -> bool {
    !extensions.is_empty()
        && (extensions.get::<ReportSlot>().is_some()
            || extensions.get::<SentBefore>().is_some()
            || extensions.get::<IdempotencyKey>().is_some()
            || extensions.get::<CorrelationId>().is_some()
            || extensions.get::<ReplayBody>().is_some()
            || extensions.get::<ReplayRequest>().is_some())
}

/// See [`Plan::watch`].
fn watch(is_write: bool) -> Watch {
    if is_write { Watch::Body } else { Watch::Sends }
}

fn policy<'p>(settings: &'p Settings, endpoint: Option<&'p Endpoint>, extensions: &'p Extensions) -> &'p RetryPolicy {
    extensions.get().or(endpoint.and_then(Endpoint::policy)).unwrap_or(&settings.policy)
}

fn hints(settings: &Settings, endpoint: Option<&Endpoint>) -> HintSources {
    endpoint.and_then(Endpoint::hints).unwrap_or(settings.hints)
}

/// The deadline of a request, before any scope caps it.
#[inline]
fn deadline(settings: &Settings, endpoint: Option<&Endpoint>, extensions: &Extensions, now: Instant) -> Deadline {
    let stated = || limit(settings, endpoint).map_or(Deadline::NONE, |limit| Deadline::from(now, limit));
    extensions.get().copied().unwrap_or_else(stated)
}

#[inline]
fn limit(settings: &Settings, endpoint: Option<&Endpoint>) -> Option<Duration> {
    endpoint.and_then(Endpoint::limit).or(settings.limit)
}

#[inline]
fn attempt_limit(settings: &Settings, endpoint: Option<&Endpoint>) -> Option<Duration> {
    endpoint.and_then(Endpoint::attempt_limit).or(settings.attempt_limit)
}

/// What the limits that the program states leave no time for.
#[inline]
fn advice_on_limits(settings: &Settings, endpoint: Option<&Endpoint>, effect: Effect) -> Option<Advice> {
    let limit = limit(settings, endpoint)?;
    // The longest of all limits is none.
    let attempt = attempt_limit(settings, endpoint).filter(|limit| *limit < Duration::MAX);
    let settling = endpoint.filter(|endpoint| endpoint.probe().is_some()).map(Endpoint::settling_time);
    let outlasts = |time: Option<Duration>| time.is_some_and(|time| time >= limit);
    if effect.is_asked_about() && outlasts(settling) {
        return Some(Advice::DeadlineWithinSettling);
    }
    // Where nothing follows an attempt that hangs, the limits do not matter.
    (effect.outlives_an_unknown() && outlasts(attempt)).then_some(Advice::DeadlineWithinAttempt)
}

/// The key the operation is sent with; an earlier pass of its call may have had it.
fn key(
    endpoint: Option<&Endpoint>,
    request: &mut Request,
    extensions: &Extensions,
    sent_before: Option<SentBefore>,
) -> Result<Option<Arc<OperationKey>>, Misuse> {
    let given = extensions.get::<IdempotencyKey>();
    let Some((endpoint, contract)) = endpoint.and_then(|endpoint| Some((endpoint, endpoint.contract()?))) else {
        return OperationKey::settle(request, None, given, sent_before).map(|key| key.map(Arc::new));
    };
    Call::settle(extensions, request, |request, of_the_call| {
        let key = OperationKey::settle(request, Some(contract), given.or(of_the_call), sent_before)?;
        if endpoint.probe().is_none() && key.as_ref().is_some_and(|key| endpoint.effect().key_has_lapsed(key.age())) {
            return Err(Misuse::KeyExpired);
        }
        // For a later pass, a key that is made now would be that of an earlier send.
        let kept = key.as_ref().filter(|key| sent_before.is_none() || !key.was_made()).map(OperationKey::once_used);
        Ok((key.map(Arc::new), kept))
    })
}

/// The key as the guard knows it, where the contract has one.
fn guarded<'a>(
    settings: &'a Settings,
    endpoint: Option<&Endpoint>,
    key: Option<&OperationKey>,
    request: &Request,
) -> Option<GuardedKey<'a>> {
    let contract = endpoint.and_then(Endpoint::contract)?;
    let name = endpoint.and_then(Endpoint::name).map_or("", AsRef::as_ref);
    settings.reuse_guard.key(contract, key?.key(), &settings.accounts, request, name)
}

/// The effect of a request that nothing describes: that of its method, unless it says that it is
/// another one.
fn effect_alone(request: &Request) -> Effect {
    if method_override::is_there(request.headers()) { Effect::UnprotectedWrite } else { Effect::of_method(request.method()) }
}

/// Writes the caller's correlation id into the headers. The key comes after it, so that no id can
/// replace a key.
fn correlation(request: &mut Request, extensions: &Extensions) -> Option<Box<CorrelationId>> {
    let id = extensions.get::<CorrelationId>()?;
    id.write(request.headers_mut());
    Some(Box::new(id.clone()))
}
