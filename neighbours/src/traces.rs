//! reqwest-tracing: one span for each operation outside, one for each attempt inside.

use opentelemetry::{
    KeyValue,
    trace::{SpanKind, Status, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use reqwest_safe_retry::{
    Endpoint,
    testing::{Fault, FaultServer},
};
use reqwest_tracing::TracingMiddleware;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::support::{bounded, inside, keyed_write, outside};

/// Exports the spans of this thread to memory.
struct Exported {
    spans: InMemorySpanExporter,
    provider: SdkTracerProvider,
    _guard: DefaultGuard,
}

impl Exported {
    fn here() -> Self {
        opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        Self { spans, provider, _guard: tracing_subscriber::registry().with(layer).set_default() }
    }

    /// The spans of the plugin and those of reqwest-tracing.
    fn by_maker(&self) -> (Vec<SpanData>, Vec<SpanData>) {
        self.provider.force_flush().unwrap();
        let ours = |span: &SpanData| attribute(span, "target").as_deref() == Some("reqwest_safe_retry");
        self.spans.get_finished_spans().unwrap().into_iter().partition(ours)
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|KeyValue { key, .. }| key.as_str() == name);
    found.map(|attribute| attribute.value.as_str().into_owned())
}

/// The span that a request says it belongs to.
fn parent_ids(server: &FaultServer) -> Vec<String> {
    let of = |traceparent: &str| traceparent.split('-').nth(2).unwrap().to_owned();
    server.requests().iter().map(|request| of(request.header("traceparent").unwrap())).collect()
}

fn ids(spans: &[SpanData]) -> Vec<String> {
    spans.iter().map(|span| span.span_context.span_id().to_string()).collect()
}

#[tokio::test]
async fn inside_each_attempt_has_a_span_and_a_traceparent_below_the_operation() {
    let exported = Exported::here();
    let server = FaultServer::start([Fault::status(503), Fault::ok("done")]).await;
    let client = inside(TracingMiddleware::default());
    bounded(client.post(server.url("/orders")).with_extension(keyed_write()).send()).await.unwrap();

    let (operations, attempts) = exported.by_maker();
    let [operation] = &operations[..] else { panic!("one operation: {operations:?}") };
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().all(|attempt| attempt.parent_span_id == operation.span_context.span_id()));
    assert_eq!(parent_ids(&server), ids(&attempts));
    assert_eq!(attempts[0].status, Status::error(""), "503");
    assert_eq!(attempts[1].status, Status::Unset);
}

#[tokio::test]
async fn outside_all_attempts_share_one_span_and_one_traceparent() {
    let exported = Exported::here();
    let server = FaultServer::start([Fault::status(503), Fault::ok("done")]).await;
    let client = outside(TracingMiddleware::default());
    bounded(client.post(server.url("/orders")).with_extension(keyed_write()).send()).await.unwrap();

    let (operations, around) = exported.by_maker();
    let ([operation], [around]) = (&operations[..], &around[..]) else { panic!("one of each") };
    assert_eq!(operation.parent_span_id, around.span_context.span_id());
    assert_eq!(parent_ids(&server), vec![around.span_context.span_id().to_string(); 2]);
    assert_eq!(around.status, Status::Unset, "the 503 is not told");
}

#[tokio::test]
async fn an_operation_is_exported_as_a_client_span_named_by_method_and_endpoint() {
    let exported = Exported::here();
    let server = FaultServer::start([Fault::status(503), Fault::ok("done")]).await;
    let client = inside(TracingMiddleware::default());
    bounded(client.post(server.url("/orders")).with_extension(keyed_write()).send()).await.unwrap();
    bounded(client.get(server.url("/menu")).send()).await.unwrap();

    let (operations, _) = exported.by_maker();
    let told: Vec<_> = operations.iter().map(|span| (span.name.as_ref(), span.span_kind.clone(), span.status.clone())).collect();
    assert_eq!(told, [("POST orders", SpanKind::Client, Status::Unset), ("GET", SpanKind::Client, Status::Unset)]);
    assert_eq!(attribute(&operations[0], "http.request.resend_count").as_deref(), Some("1"));
}

#[tokio::test]
async fn an_operation_whose_outcome_is_unknown_is_exported_as_an_error() {
    let exported = Exported::here();
    let server = FaultServer::start([Fault::close_after_request(), Fault::hang()]).await;
    let client = inside(TracingMiddleware::default());
    let order = || client.post(server.url("/orders")).with_extension(Endpoint::unprotected_write()).send();
    bounded(order()).await.unwrap_err();
    tokio::select! {
        _ = order() => panic!("nobody answers"),
        () = server.until_complete(2) => {} // the caller gives up
    }

    let (operations, _) = exported.by_maker();
    let told: Vec<_> = operations.iter().map(|span| (span.status.clone(), attribute(span, "outcome"))).collect();
    assert_eq!(told, [(Status::error(""), Some("Unknown".to_owned())), (Status::error(""), None)]);
    server.assert_writes(2);
}
