//! The public names and signatures that others build on: this file compiles, or a promise is
//! broken.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode};

/// Holds a path to the type it has.
macro_rules! pinned {
    ($($path:expr => $signature:ty;)+) => { $(let _: $signature = $path;)+ };
}

/// The engine's names, and the few of them that stand in the root as well.
mod the_policy {
    use super::*;

    use reqwest_safe_retry::policy::{
        Backoff, BodySupply, BudgetLimits, Decision, Draw, Effect, Evidence, Hint, HintSpread, IdempotencyKey, InvalidHint, InvalidKey,
        Jitter, KeyContract, KeyFormat, KeySource, Lapsed, ResendPermit, ResendReason, RetryPolicy, RetryStatuses, Signal, Situation,
        StopReason, UniqueWithin, UnreadableHint,
    };

    #[test]
    fn a_policy_is_a_constant() {
        const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(5)).with_jitter(Jitter::Equal);
        const POLICY: RetryPolicy = RetryPolicy::DEFAULT
            .with_attempts(0)
            .with_backoff(BACKOFF)
            .with_throttle_backoff(BACKOFF)
            .with_window(Duration::MAX)
            .with_least_attempt(Duration::ZERO)
            .with_statuses(RetryStatuses::DEFAULT)
            .with_hint_spread(HintSpread::Exact)
            .with_unreadable_hint(UnreadableHint::UseBackoff);
        assert_eq!(POLICY.attempts(), 1);
        assert_ne!(RetryPolicy::ARTICLE, RetryPolicy::DEFAULT);
        pinned! {
            RetryPolicy::decide => fn(&RetryPolicy, &Situation) -> Decision;
            Backoff::pause => fn(&Backoff, u32, Draw) -> Duration;
            Draw::new => fn(u64) -> Draw;
            [Draw::LEAST, Draw::HALF, Draw::GREATEST] => [Draw; 3];
            [Jitter::Full, Jitter::Equal, Jitter::None] => [Jitter; 3];
            [HintSpread::Jittered, HintSpread::Exact] => [HintSpread; 2];
            [UnreadableHint::Stop, UnreadableHint::UseBackoff] => [UnreadableHint; 2];
            BudgetLimits::DEFAULT => BudgetLimits;
            Hint::parse => fn(&HeaderMap, SystemTime) -> Option<Result<Duration, InvalidHint>>;
        }
    }

    #[test]
    fn a_situation_is_complete_at_birth_and_open() {
        let situation = Situation::new(Effect::Read, Signal::Failed, Evidence::Unprocessed)
            .with_hint(Ok(Duration::from_secs(1)))
            .with_sends(1)
            .with_probes(0)
            .with_elapsed(Duration::ZERO)
            .with_key_age(Duration::ZERO)
            .with_time_left(Duration::MAX)
            .with_attempt_limit(Duration::MAX)
            .with_body(BodySupply::Replayable)
            .with_draw(Draw::HALF);
        let mut bare = Situation::new(Effect::Read, Signal::Failed, Evidence::Unprocessed);
        assert_eq!(bare.hint, None);
        bare.hint = Some(Ok(Duration::from_secs(1)));
        assert_eq!(situation, bare);
        pinned! {
            (situation.effect, situation.signal, situation.evidence) => (Effect, Signal, Evidence);
            (situation.sends, situation.probes, situation.body, situation.draw) => (u32, u32, BodySupply, Draw);
            [situation.elapsed, situation.key_age, situation.time_left, situation.attempt_limit] => [Duration; 4];
        }
    }

    #[test]
    fn facts_and_answers_have_their_names() {
        let status = StatusCode::OK;
        pinned! {
            [
                Effect::Read, Effect::IdempotentWrite, Effect::ProbedWrite, Effect::UnprotectedWrite, Effect::NeverResend,
                Effect::KeyedWrite { remembered_for: Duration::ZERO, lapsed: Lapsed::Stop },
                Effect::KeyedWrite { remembered_for: Duration::ZERO, lapsed: Lapsed::Probe },
            ] => [Effect; 7];
            [
                Signal::Answered(status), Signal::Final(status), Signal::Resendable(status), Signal::Overloaded(status), Signal::KeyInUse, Signal::Failed, Signal::Broken,
                Signal::BodyLost(status), Signal::Forbidden, Signal::ProbedAbsent, Signal::SentBefore,
            ] => [Signal; 11];
            [
                ResendReason::ProvenUnprocessed, ResendReason::EffectRepeatable, ResendReason::KeyDeduplicates, ResendReason::ProbeFoundNothing,
            ] => [ResendReason; 4];
            [
                StopReason::AnswerIsFinal, StopReason::MayHaveHappened, StopReason::AttemptsSpent, StopReason::DeadlineTooNear,
                StopReason::WindowClosed, StopReason::BudgetSpent, StopReason::KeyExpired, StopReason::BodyConsumed,
                StopReason::ProbeUndecided, StopReason::UnreadableHint, StopReason::ServerForbade, StopReason::Broken, StopReason::Misused,
                StopReason::Disabled,
                StopReason::Cancelled,
            ] => [StopReason; 15];
            ResendPermit::pause => fn(&ResendPermit) -> Duration;
            ResendPermit::backoff => fn(&ResendPermit) -> Duration;
            ResendPermit::reason => fn(&ResendPermit) -> ResendReason;
        }
        let worst = [Evidence::Unprocessed, Evidence::Unknown].into_iter().max();
        assert_eq!(worst, Some(Evidence::Unknown));
        let reads = Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown);
        match RetryPolicy::DEFAULT.decide(&reads) {
            Decision::Resend(permit) => assert_eq!(permit.reason(), ResendReason::EffectRepeatable),
            Decision::Return | Decision::Probe(_) | Decision::Stop(_) => panic!("a read is sent again"),
        }
    }

    #[test]
    fn the_contract_of_a_key_is_a_constant() {
        const DAY: Duration = Duration::from_secs(86_400);
        const CONTRACT: KeyContract = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Quoted, DAY)
            .with_source(KeySource::CallerMust)
            .with_in_progress(StatusCode::CONFLICT)
            .with_replay_marker(HeaderName::from_static("x-replayed"))
            .with_length(1..=64)
            .with_uniqueness(UniqueWithin::Endpoint)
            .with_reuse_guard();
        const IETF: KeyContract = KeyContract::ietf(DAY);
        assert_eq!(
            (CONTRACT.format(), IETF.format(), KeyContract::STRIPE.format()),
            (KeyFormat::Quoted, KeyFormat::Quoted, KeyFormat::Bare)
        );
        assert_eq!(KeyContract::STRIPE.remembered_for(), DAY);
        pinned! {
            [KeySource::Generate, KeySource::CallerMust] => [KeySource; 2];
            [UniqueWithin::Account, UniqueWithin::Endpoint] => [UniqueWithin; 2];
            IdempotencyKey::parse => fn(&str) -> Result<IdempotencyKey, InvalidKey>;
            IdempotencyKey::first_used => fn(IdempotencyKey, SystemTime) -> IdempotencyKey;
            IdempotencyKey::as_str => fn(&IdempotencyKey) -> &str;
        }
    }
}

/// What a caller of a client writes of the engine stands in the root as well.
#[test]
fn the_root_has_the_engines_common_names() {
    use reqwest_safe_retry::policy;
    pinned! {
        policy::RetryPolicy::DEFAULT => reqwest_safe_retry::RetryPolicy;
        policy::BudgetLimits::DEFAULT => reqwest_safe_retry::BudgetLimits;
        policy::Effect::Read => reqwest_safe_retry::Effect;
        policy::Evidence::Unknown => reqwest_safe_retry::Evidence;
        policy::StopReason::AnswerIsFinal => reqwest_safe_retry::StopReason;
        policy::KeyContract::STRIPE => reqwest_safe_retry::KeyContract;
        policy::Outcome::Unknown => reqwest_safe_retry::Outcome;
        policy::Verdict::Final => reqwest_safe_retry::Verdict;
        policy::IdempotencyKey::parse => fn(&str) -> Result<reqwest_safe_retry::IdempotencyKey, policy::InvalidKey>;
    }
}

#[cfg(feature = "middleware")]
mod the_client {
    use std::{borrow::Cow, io};

    use http::{Extensions, Method};
    use reqwest::{Request, Response, Url, redirect};
    use reqwest_middleware::{ClientWithMiddleware, Middleware, RequestBuilder};
    use reqwest_safe_retry::{
        Answer, BudgetLimits, Cause, CorrelationId, Deadline, Endpoint, EndpointCatalog, Evidence, Failure, IdempotencyKey, KeyContract,
        Misuse, Observer, Operation, Outcome, ProbeVerdict, ReplayBody, ReplayRequest, ReportSlot, RetryBudget, RetryError, RetryErrorExt,
        RetryPolicy, RetryReport, SafeClientBuilder, SafeRetry, SendWitness, SentBefore, StatusProbe, StopReason, Unmarked, Verdict,
        policy::Signal,
        report::{AttemptRecord, Decided},
    };

    use super::*;

    struct Silent;

    impl Observer for Silent {
        fn decided(&self, _: &Decided<'_>) {}
    }

    #[reqwest_safe_retry::async_trait]
    impl StatusProbe for Silent {
        async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
            let _: (&Method, &Url, &HeaderMap, Option<&[u8]>) =
                (operation.method(), operation.url(), operation.headers(), operation.body());
            let _: (&Extensions, Option<&IdempotencyKey>, &[AttemptRecord]) =
                (operation.extensions(), operation.key(), operation.attempts());
            let _: Duration = operation.time_left();
            let question: Request = operation.get(operation.url().clone());
            let answer: reqwest_middleware::Result<Response> = operation.send(question).await;
            match answer {
                Ok(response) if response.status().is_success() => ProbeVerdict::Applied(response),
                Ok(response) if response.status() == StatusCode::NOT_FOUND => ProbeVerdict::Absent,
                Ok(response) if response.status() == StatusCode::ACCEPTED => ProbeVerdict::InProgress,
                Ok(_) | Err(_) => ProbeVerdict::Undecided,
            }
        }
    }

    /// Compiles: nothing here needs a socket.
    fn wired([outside, signer]: [Nothing; 2], init: Nothing) {
        let retry: SafeRetry = SafeRetry::new()
            .with_policy(RetryPolicy::DEFAULT)
            .with_budget(RetryBudget::new(BudgetLimits::DEFAULT))
            .with_deadline(Duration::from_secs(20))
            .with_attempt_limit(Duration::from_secs(5))
            .with_unmarked(Unmarked::Untouched)
            .with_unmarked(Unmarked::ByMethod)
            .with_default_write(Endpoint::unprotected_write())
            .with_catalog(EndpointCatalog::new())
            .with_observer(Silent);
        let builder: SafeClientBuilder = retry.clone().client(reqwest::Client::builder());
        let builder = builder.redirect(redirect::Policy::default()).redirects_off().with_outside(outside).with(signer).with_init(init);
        let _: reqwest::Result<ClientWithMiddleware> = builder.build();
        let _ = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(retry).with(SendWitness::redirects_off());
        let _ = (SendWitness::default_redirects(), SendWitness::custom_redirects());
    }

    /// Compiles: everything a request can carry.
    fn carrying(request: RequestBuilder) -> RequestBuilder {
        let endpoint = Endpoint::keyed_write(KeyContract::STRIPE)
            .probed_by(Silent)
            .settling(Duration::from_secs(5))
            .named("payments")
            .owned_by(Cow::Borrowed("billing"))
            .with_policy(RetryPolicy::ARTICLE)
            .with_deadline(Duration::MAX)
            .deadline_to_head()
            .with_attempt_limit(Duration::from_secs(3))
            .reading_body(1024)
            .trusting_refusal(StatusCode::TOO_MANY_REQUESTS)
            .waits_read_by(|answer: &Answer<'_>| answer.body().map(|_| Duration::from_secs(1)))
            .classified_by(|answer: &Answer<'_>| {
                let _: (StatusCode, &HeaderMap, Option<&[u8]>, Option<&HeaderMap>) =
                    (answer.status(), answer.headers(), answer.body(), answer.trailers());
                [
                    Some(Verdict::Final),
                    Some(Verdict::Resendable),
                    Some(Verdict::Overloaded),
                    Some(Verdict::KeyInUse),
                    Some(Verdict::Forbidden),
                    None,
                ][0]
            });
        request
            .with_extension(endpoint)
            .with_extension(Deadline::after(Duration::MAX))
            .with_extension(IdempotencyKey::random())
            .with_extension(SentBefore::since(SystemTime::UNIX_EPOCH))
            .with_extension(ReplayBody::from_fn(|| io::Result::Ok(reqwest::Body::from("again"))))
            .with_extension(ReplayRequest::from_fn(|| reqwest::Client::new().post("http://localhost/").body("again").build()))
            .with_extension(ReportSlot::new())
            .with_extension(CorrelationId::new("checkout-7").unwrap())
            .with_extension(RetryPolicy::DEFAULT)
    }

    /// Compiles: every way an operation can end without an answer.
    fn failing(error: &reqwest_middleware::Error) -> Option<&Failure> {
        pinned! {
            RetryError::report => fn(&RetryError) -> Option<&RetryReport>;
            RetryError::key => fn(&RetryError) -> Option<&IdempotencyKey>;
            RetryError::status => fn(&RetryError) -> Option<StatusCode>;
            error.safe_retry() => Option<&RetryError>;
            error.transport_error() => Option<&reqwest::Error>;
            error.timed_out() => bool;
            error.evidence() => Evidence;
        }
        match RetryError::find(error)? {
            RetryError::OutcomeUnknown(failure)
            | RetryError::Unprocessed(failure)
            | RetryError::DeadlineExceeded(failure)
            | RetryError::AttemptTimedOut(failure)
            | RetryError::BodyLost(failure) => Some(failure),
            RetryError::Misused(Misuse::MissingKey) => None,
            _ => None,
        }
    }

    #[test]
    fn the_wiring_has_its_names() {
        let _: fn([Nothing; 2], Nothing) = wired;
        let _: fn(RequestBuilder) -> RequestBuilder = carrying;
        let _: fn(&reqwest_middleware::Error) -> Option<&Failure> = failing;
        pinned! {
            Endpoint::read => fn() -> Endpoint;
            Endpoint::idempotent_write => fn() -> Endpoint;
            Endpoint::unprotected_write => fn() -> Endpoint;
            Endpoint::never_resend => fn() -> Endpoint;
            Endpoint::probed_write(Silent) => Endpoint;
            Deadline::at => fn(tokio::time::Instant) -> Deadline;
            Deadline::NONE => Deadline;
            Deadline::time_left => fn(Deadline) -> Duration;
            IdempotencyKey::derived => fn(reqwest_safe_retry::Uuid, &str) -> IdempotencyKey;
            ReportSlot::take => fn(&ReportSlot) -> Option<RetryReport>;
        }
    }

    #[test]
    fn what_comes_out_has_its_names() {
        pinned! {
            RetryReport::of => fn(&Response) -> Option<&RetryReport>;
            RetryReport::attempts => fn(&RetryReport) -> &[AttemptRecord];
            RetryReport::stop => fn(&RetryReport) -> StopReason;
            RetryReport::outcome => fn(&RetryReport) -> Outcome;
            RetryReport::hint => fn(&RetryReport) -> Option<Duration>;
            RetryReport::key => fn(&RetryReport) -> Option<&IdempotencyKey>;
            RetryReport::key_was_sent => fn(&RetryReport) -> bool;
            RetryReport::replayed => fn(&RetryReport) -> bool;
            AttemptRecord::number => fn(&AttemptRecord) -> u32;
            AttemptRecord::started => fn(&AttemptRecord) -> Duration;
            AttemptRecord::took => fn(&AttemptRecord) -> Duration;
            AttemptRecord::signal => fn(&AttemptRecord) -> Signal;
            AttemptRecord::evidence => fn(&AttemptRecord) -> Evidence;
            AttemptRecord::cause => fn(&AttemptRecord) -> Cause;
            AttemptRecord::pause => fn(&AttemptRecord) -> Option<Duration>;
            [Outcome::Answered, Outcome::AnsweredAfterUnknown, Outcome::Reconciled, Outcome::Unprocessed, Outcome::Unknown] => [Outcome; 5];
            [Cause::Connect, Cause::Reset, Cause::PeerClosed, Cause::Protocol, Cause::Status] => [Cause; 5];
            Cause::TimedOut => fn(reqwest_safe_retry::report::TimeLimit) -> Cause;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_hands_the_work_s_result_on() {
        assert_eq!(Deadline::after(Duration::from_secs(1)).scope(async { 7 }).await, 7);
    }

    #[test]
    fn what_crosses_threads_can() {
        fn shared<T: Clone + Send + Sync + 'static>() {}
        shared::<SafeRetry>();
        shared::<SendWitness>();
        shared::<Endpoint>();
        shared::<Deadline>();
        shared::<IdempotencyKey>();
        shared::<ReplayBody>();
        shared::<ReplayRequest>();
        shared::<ReportSlot>();
        shared::<CorrelationId>();
        shared::<RetryReport>();
        shared::<RetryPolicy>();
        fn copied<T: Copy>() {}
        copied::<Deadline>();
        copied::<RetryPolicy>();
        fn error<T: std::error::Error + Send + Sync + 'static>() {}
        error::<RetryError>();
    }

    /// A middleware and an initialiser without an opinion.
    struct Nothing;

    #[async_trait::async_trait]
    impl Middleware for Nothing {
        async fn handle(
            &self,
            request: Request,
            extensions: &mut Extensions,
            next: reqwest_middleware::Next<'_>,
        ) -> reqwest_middleware::Result<Response> {
            next.run(request, extensions).await
        }
    }

    impl reqwest_middleware::RequestInitialiser for Nothing {
        fn init(&self, request: RequestBuilder) -> RequestBuilder {
            request
        }
    }
}
