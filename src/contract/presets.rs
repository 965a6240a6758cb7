//! What well-known servers promise for an idempotency key, and how they ask to be left alone, each
//! with the page that says so.
//!
//! Only what public documentation says is here; where an older and a newer page differ, the shorter
//! memory is taken, because a key that is trusted too long turns a resend into a second operation.
//! Documentation changes: read the page before you move money, and correct single facts with the
//! `with_…` methods of [`KeyContract`].
//!
//! A server that keeps to the IETF draft needs no preset: [`KeyContract::ietf`] with the lifetime
//! that it publishes.
//!
//! Not here, and why: Square takes `idempotency_key` in the body, where this crate does not look
//! (<https://developer.squareup.com/docs/working-with-apis/idempotency>); Twilio: no key for
//! requests was found in the documentation of its REST API, so its POSTs are unprotected writes
//! ([`twilio_write`]); OpenAI and Anthropic: their own clients make keys and do not send them;
//! Solidgate publishes no lifetime (<https://api-docs.solidgate.com/api/v2/idempotent-requests>).

use std::time::Duration;

use http::{HeaderName, StatusCode, header::RETRY_AFTER};

use crate::{
    contract::body_waits::longest_under,
    contract::endpoint::{Answer, Endpoint},
    contract::hints::HintSources,
    policy::{KeyContract, KeyFormat, Replays, Verdict},
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Stripe API v1 ([`KeyContract::STRIPE`]): at least 24 hours, 409 while the first copy runs, 400
/// for other content, and every saved result replayed, a 500 included. Only POST takes a key; GET
/// and DELETE ignore it.
///
/// Sources: <https://docs.stripe.com/api/idempotent_requests>; 400:
/// <https://github.com/stripe/stripe-ruby/issues/503>; 409: <https://docs.stripe.com/api/errors>.
pub const STRIPE_V1: KeyContract = KeyContract::STRIPE;

/// Stripe API v2: 30 days, for POST and DELETE. Successes are not repeated; failed work is carried
/// out again. Which status a copy gets while the first one runs is not documented.
///
/// Sources: <https://docs.stripe.com/api-v2-overview#idempotency>,
/// <https://docs.stripe.com/error-low-level>.
pub const STRIPE_V2: KeyContract = KeyContract::new(IDEMPOTENCY_KEY, KeyFormat::Bare, days(30)).with_replays(Replays::Successes);

/// OASIS Repeatable Requests 1.0: a GUID in `Repeatability-Request-ID` and the time of the first
/// send in `Repeatability-First-Sent`, the same on every attempt. How long requests are tracked is
/// the server's choice; a later one is answered 412 and not executed.
///
/// 409 while the first copy runs, 400 for other content, 2xx and 4xx replayed, 5xx executed again:
/// as Azure does it ([`AZURE_COMMUNICATION`]). Specification:
/// <https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html>.
///
/// ```
/// use reqwest_safe_retry::{Endpoint, presets};
/// use std::time::Duration;
///
/// let order = Endpoint::keyed_write(presets::oasis(Duration::from_secs(600)));
/// # let _ = order;
/// ```
pub const fn oasis(tracked_for: Duration) -> KeyContract {
    KeyContract::new(HeaderName::from_static("repeatability-request-id"), KeyFormat::Bare, tracked_for)
        .with_length(36..=36)
        .with_first_sent_header(HeaderName::from_static("repeatability-first-sent"))
        .with_in_progress(StatusCode::CONFLICT)
        .with_mismatch(StatusCode::BAD_REQUEST)
        .with_replays(Replays::Settled)
}

/// Azure Communication Services: [`oasis`] with requests tracked for 5 minutes.
///
/// Source: <https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests>.
pub const AZURE_COMMUNICATION: KeyContract = oasis(Duration::from_secs(5 * 60));

/// PayPal Orders v2: 6 hours (up to 72 by agreement), at most 108 characters.
///
/// A second copy that arrives while the first one runs may fail, with a status that is not
/// documented.
///
/// Sources: <https://developer.paypal.com/api/orders/v2/orders-create>,
/// <https://developer.paypal.com/api/rest/reference/idempotency>.
pub const PAYPAL_ORDERS: KeyContract = paypal(hours(6)).with_length(1..=108);

/// PayPal Payments v2, captures and refunds: 45 days. Other PayPal APIs have lifetimes of their
/// own.
///
/// Sources:
/// <https://pub.dev/documentation/paypal_sdk/latest/payments/PaymentsApi/refundCapturedPayment.html>,
/// <https://developer.paypal.com/api/rest/reference/idempotency>.
pub const PAYPAL_PAYMENTS: KeyContract = paypal(days(45));

const fn paypal(remembered_for: Duration) -> KeyContract {
    KeyContract::new(HeaderName::from_static("paypal-request-id"), KeyFormat::Bare, remembered_for)
}

/// Adyen: at least 7 days (older pages say 31), at most 64 characters, unique within the company
/// account and not checked across regions.
///
/// A copy that arrives while the first one runs is answered 409, or 422 (error 704), which is final
/// here because it can also be a plain refusal. Only POST takes a key.
///
/// Source: <https://docs.adyen.com/development-resources/api-idempotency>.
pub const ADYEN: KeyContract =
    KeyContract::new(IDEMPOTENCY_KEY, KeyFormat::Bare, days(7)).with_length(1..=64).with_in_progress(StatusCode::CONFLICT);

/// Checkout.com: 24 hours by default. Only 2xx are saved, 4xx and 5xx run again.
///
/// 409 while the first copy runs; older accounts may still see 429. Wait at least 30 seconds then,
/// says Checkout.com. Sandboxes once forgot keys after 120 seconds.
///
/// Sources: <https://www.checkout.com/docs/payments/manage-payments/idempotency>; 409:
/// <https://support.checkout.com/hc/en-us/articles/24570669653010-Why-did-I-receive-a-409-HTTP-response-to-my-idempotent-API-request-instead-of-429>.
pub const CHECKOUT_COM: KeyContract = KeyContract::new(HeaderName::from_static("cko-idempotency-key"), KeyFormat::Bare, DAY)
    .with_in_progress(StatusCode::CONFLICT)
    .with_replays(Replays::Successes);

/// TrueLayer Payments v3: 6 hours (a newer page says 30 days). A version 4 UUID is strongly
/// advised. Other content is refused, with a status that is not documented.
///
/// Sources: <https://docs.truelayer.com/docs/idempotency>,
/// <https://docs.truelayer.com/docs/idempotency-for-payment-requests>.
pub const TRUELAYER: KeyContract = KeyContract::new(IDEMPOTENCY_KEY, KeyFormat::Bare, hours(6));

/// Whop: 24 hours, 400 for other content, replays marked with `Idempotent-Replayed`; a 4xx is
/// replayed too. Ignored on anything but authenticated POSTs.
///
/// Source: <https://docs.whop.com/developer/api/idempotency>.
pub const WHOP: KeyContract =
    KeyContract::new(IDEMPOTENCY_KEY, KeyFormat::Bare, DAY).with_mismatch(StatusCode::BAD_REQUEST).with_replay_marker(IDEMPOTENT_REPLAYED);

/// Fullstory API v2: 24 hours. Results that trying again cannot change are replayed; 429 and 5xx
/// run again.
///
/// Source: <https://developer.fullstory.com/server/idempotent-requests>.
pub const FULLSTORY: KeyContract = KeyContract::new(IDEMPOTENCY_KEY, KeyFormat::Bare, DAY).with_replays(Replays::Settled);

// ===== waits and vetoes =====

/// Stripe: `Stripe-Should-Retry`, which goes before the status, a 409 included.
///
/// Source:
/// <https://github.com/stripe/stripe-ruby/blob/0375fa3d44de7d1d0566b4bc6d540fe52f38c4b2/lib/stripe/api_requestor.rb>
/// (`should_retry?`).
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Endpoint, presets};
///
/// let charges = Endpoint::keyed_write(presets::STRIPE_V1).with_hints(presets::STRIPE_HINTS);
/// ```
pub const STRIPE_HINTS: HintSources = HintSources::STANDARD.with_vetoes();

/// OpenAI: `x-should-retry`, and `retry-after-ms` before `Retry-After`.
///
/// Source:
/// <https://github.com/openai/openai-python/blob/e43b422412a9e96c9cc5192c61fffbe2d7e04836/src/openai/_base_client.py>.
pub const OPENAI_HINTS: HintSources = HintSources::STANDARD.with_milliseconds().with_vetoes();

/// Anthropic: `x-should-retry`, and `retry-after-ms` before `Retry-After`. An overload is 529: add
/// it to the policy's statuses.
///
/// Sources:
/// <https://github.com/anthropics/anthropic-sdk-python/blob/009b035305e0724ce108ebd796935f91711fc6e1/src/anthropic/_base_client.py>;
/// 529: <https://docs.anthropic.com/en/api/errors>.
pub const ANTHROPIC_HINTS: HintSources = HintSources::STANDARD.with_milliseconds().with_vetoes();

/// Azure: `retry-after-ms` and `x-ms-retry-after-ms` (Cosmos DB among others) before `Retry-After`.
///
/// Sources: <https://github.com/Azure/azure-sdk-for-rust/issues/1516>,
/// <https://learn.microsoft.com/en-us/rest/api/cosmos-db/common-cosmosdb-rest-response-headers>.
pub const AZURE_HINTS: HintSources = HintSources::STANDARD.with_milliseconds();

/// Shopify's REST Admin API: a leaky bucket for each app and shop, whose overflow is 429 with
/// `Retry-After` in seconds, with a fraction (`2.0`). The standard field is all there is to read.
/// Shops have hosts of their own, so budget and cool-down keep them apart by default.
///
/// The GraphQL API answers 200 with a `THROTTLED` error in the body instead, which takes
/// [`reading_body`](Endpoint::reading_body) and [`classified_by`](Endpoint::classified_by).
///
/// Sources: <https://shopify.dev/docs/api/admin-rest/usage/rate-limits>,
/// <https://shopify.dev/docs/api/usage/limits>.
pub const SHOPIFY_HINTS: HintSources = HintSources::STANDARD;

/// GitHub's REST API: 403 and 429 mean "too much" where they come with `Retry-After`, or with
/// `x-ratelimit-remaining: 0` and the time of `x-ratelimit-reset`. Any other 403 is a refusal,
/// hence final.
///
/// A 429 with neither asks for at least one minute. No backoff is that patient, so it ends the
/// operation. GitHub's reset can be an hour away: without a deadline that long the answer returns
/// at once, with the wait in its report. A limit says nothing about a write that ran into it: mark
/// what protects it.
///
/// Replaces the endpoint's [`classified_by`](Endpoint::classified_by) and
/// [`with_hints`](Endpoint::with_hints).
///
/// Sources: <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>,
/// <https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api>.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Endpoint, presets};
///
/// let issues = presets::github(Endpoint::read().named("issues"));
/// ```
pub fn github(endpoint: Endpoint) -> Endpoint {
    endpoint.with_hints(HintSources::STANDARD.with_rate_limit_reset()).classified_by(github_limit)
}

fn github_limit(answer: &Answer<'_>) -> Option<Verdict> {
    let headers = answer.headers();
    let used_up = headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0") && headers.contains_key("x-ratelimit-reset");
    let asks_to_wait = used_up || headers.contains_key(RETRY_AFTER);
    match answer.status() {
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS if asks_to_wait => Some(Verdict::Overloaded),
        StatusCode::TOO_MANY_REQUESTS => Some(Verdict::Forbidden),
        _ => None,
    }
}

/// The wait in the body of a Google Cloud error: `retryDelay` of `google.rpc.RetryInfo`, as in
/// `"retryDelay": "12s"`. For [`Endpoint::waits_read_by`], with
/// [`reading_body`](Endpoint::reading_body).
///
/// Source: <https://cloud.google.com/apis/design/errors#error_details>.
pub fn google_retry_delay(answer: &Answer<'_>) -> Option<Duration> {
    longest_under("retryDelay", failed(answer)?)
}

/// The wait in the body of an error of Discord (`"retry_after": 1.337`) or Telegram
/// (`"parameters": {"retry_after": 5}`), in seconds. For [`Endpoint::waits_read_by`], with
/// [`reading_body`](Endpoint::reading_body).
///
/// Sources: <https://discord.com/developers/docs/topics/rate-limits>,
/// <https://core.telegram.org/bots/api#responseparameters>.
pub fn retry_after_in_body(answer: &Answer<'_>) -> Option<Duration> {
    longest_under("retry_after", failed(answer)?)
}

/// The body of a failure: what a result says is no wait.
fn failed<'a>(answer: &Answer<'a>) -> Option<&'a [u8]> {
    answer.body().filter(|_| answer.status().is_client_error() || answer.status().is_server_error())
}

/// A write to Twilio's REST API: it takes no key, but a request that is answered 429 was never
/// processed and is safe to send again.
///
/// That counts only where redirects are off or counted, see
/// [`trusting_refusal`](Endpoint::trusting_refusal).
///
/// Source: <https://www.twilio.com/docs/api/errors/20429>.
///
/// ```
/// use reqwest_safe_retry::{Endpoint, presets};
///
/// let sms = presets::twilio_write();
/// // And a read of a bot, which is told in the body how long to wait.
/// let updates = Endpoint::read().reading_body(4096).waits_read_by(presets::retry_after_in_body);
/// # let _ = (sms, updates);
/// ```
pub fn twilio_write() -> Endpoint {
    Endpoint::unprotected_write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS)
}

const fn hours(count: u32) -> Duration {
    HOUR.saturating_mul(count)
}

const fn days(count: u32) -> Duration {
    DAY.saturating_mul(count)
}
