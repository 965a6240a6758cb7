//! tower: the client as a `Service`, also behind a `Buffer`. Its requests carry no extensions and run
//! no initialisers, so a catalogue or a default write marks them.

use http::Method;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Error, Extension};
use reqwest_safe_retry::{
    Endpoint, EndpointCatalog, RetryErrorExt as _, RetryReport, Row, SafeRetry,
    testing::{Fault, FaultServer},
};
use tower::{BoxError, Service, ServiceExt as _, buffer::Buffer};

use crate::support::{bounded, keyed_write, plain, quick};

fn client(retry: SafeRetry) -> ClientWithMiddleware {
    retry.client(plain()).redirects_off().build().unwrap()
}

async fn called<S>(service: S, request: Request) -> Result<Response, S::Error>
where
    S: Service<Request, Response = Response>,
{
    bounded(service.oneshot(request)).await
}

fn order(server: &FaultServer) -> Request {
    Request::new(Method::POST, server.url("/orders"))
}

async fn losing_one_answer() -> FaultServer {
    FaultServer::start([Fault::close_after_request(), Fault::ok("done")]).await
}

#[tokio::test]
async fn a_write_of_a_service_goes_by_its_method() {
    let server = losing_one_answer().await;
    let error: Error = called(client(quick()), order(&server)).await.unwrap_err();
    assert!(error.safe_retry().is_none(), "nothing marks it: the transport's error, unchanged");
    server.assert_writes(1);
}

#[tokio::test]
async fn a_default_write_marks_the_writes_of_a_service() {
    let server = losing_one_answer().await;
    let answer = called(client(quick().with_default_write(keyed_write())), order(&server)).await.unwrap();
    assert_eq!(RetryReport::of(&answer).unwrap().attempts().len(), 2);
    server.assert_writes(2);
}

#[tokio::test]
async fn a_catalogue_marks_the_writes_of_a_service() {
    let server = losing_one_answer().await;
    let catalog = EndpointCatalog::new().with_row(server.url("/").as_str(), Row::post("/orders", keyed_write())).unwrap();
    called(client(quick().with_catalog(catalog)), order(&server)).await.unwrap();
    server.assert_writes(2);
}

/// reqwest-middleware runs initialisers where a request is begun, and a service begins none.
#[tokio::test]
async fn an_initialiser_marks_no_write_of_a_service() {
    let server = losing_one_answer().await;
    let marks = Extension(Endpoint::idempotent_write());
    let client = quick().client(plain()).redirects_off().with_init(marks).build().unwrap();
    called(client.clone(), order(&server)).await.unwrap_err();
    server.assert_writes(1);
    let server = losing_one_answer().await;
    bounded(client.post(server.url("/orders")).send()).await.unwrap();
    server.assert_writes(2);
}

/// The error of a buffer's service is boxed, and still the same error.
#[tokio::test]
async fn behind_a_buffer_an_operation_is_the_same_and_its_error_is_found() {
    let server = FaultServer::start([Fault::close_after_request(), Fault::ok("done"), Fault::close_after_request()]).await;
    let buffer = Buffer::new(client(quick().with_default_write(keyed_write())), 8);
    let answer = called(buffer.clone(), order(&server)).await.unwrap();
    assert_eq!(RetryReport::of(&answer).unwrap().attempts().len(), 2);
    let error: BoxError = called(buffer, order(&server)).await.unwrap_err();
    let error = error.downcast_ref::<Error>().unwrap();
    assert_eq!(error.safe_retry().unwrap().report().unwrap().attempts().len(), 3);
    server.assert_writes(5);
}
