//! TLS in front of the `FaultServer`, as plain reqwest sees it.

use std::{error::Error, time::Duration};

use reqwest::{Certificate, Client, Response};
use reqwest_safe_retry::testing::{Fault, FaultServer, Handshake, Tls};

const SHORT: Duration = Duration::from_millis(200);

fn trusting(tls: &Tls) -> Client {
    let root = Certificate::from_pem(tls.root_pem().as_bytes()).unwrap();
    Client::builder().no_proxy().tls_certs_only([root]).timeout(Duration::from_secs(5)).build().unwrap()
}

async fn post(client: &Client, server: &FaultServer) -> reqwest::Result<Response> {
    client.post(server.url("/orders?id=1")).body("one coffee").send().await
}

fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[tokio::test]
async fn a_trusted_server_answers_and_records_as_a_plain_one_does() {
    let tls = Tls::new();
    let server = FaultServer::start_tls(&tls, [Fault::status(503).with_body("busy").chunked(), Fault::ok("done")]).await;
    let client = trusting(&tls);
    assert_eq!(post(&client, &server).await.unwrap().text().await.unwrap(), "busy");
    assert_eq!(post(&client, &server).await.unwrap().text().await.unwrap(), "done");
    server.assert_writes(2);
    server.assert_connections(1);
    assert_eq!(server.requests()[0].url(), &server.url("/orders?id=1"));
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_by_the_client() {
    let tls = Tls::new();
    let server = FaultServer::start_tls(&tls, []).await;
    let error = post(&trusting(&Tls::new()), &server).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    server.assert_requests(0);
    server.assert_connections(1);
}

#[tokio::test]
async fn a_broken_handshake_is_a_connect_error_and_takes_no_step() {
    for handshake in [Handshake::Close, Handshake::Reset, Handshake::Plaintext] {
        let tls = Tls::new().with_handshakes([handshake, Handshake::Complete]);
        let server = FaultServer::start_tls(&tls, [Fault::ok("done"), Fault::status(500)]).await;
        let client = trusting(&tls);
        let error = post(&client, &server).await.unwrap_err();
        assert!(error.is_connect() && !error.is_timeout(), "{handshake:?}: {error:?}");
        server.assert_requests(0);
        assert_eq!(post(&client, &server).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_hanging_handshake_lasts_until_the_client_gives_up() {
    let tls = Tls::new().with_handshakes([Handshake::Hang]);
    let server = FaultServer::start_tls(&tls, []).await;
    assert!(tokio::time::timeout(SHORT, post(&trusting(&tls), &server)).await.is_err());
    server.until_connections(1).await;
    server.assert_requests(0);
}

#[tokio::test]
async fn a_fault_behind_tls_is_the_fault_it_is_without() {
    let tls = Tls::new();
    let faults = [Fault::close_after_request(), Fault::reset_after_request(), Fault::ok("0123456789").with_body_cut_at(4)];
    let server = FaultServer::start_tls(&tls, faults).await;
    let client = trusting(&tls);
    let closed = post(&client, &server).await.unwrap_err();
    assert!(find::<hyper::Error>(&closed).unwrap().is_incomplete_message(), "{closed:?}");
    let reset = post(&client, &server).await.unwrap_err();
    assert_eq!(find::<std::io::Error>(&reset).map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionReset), "{reset:?}");
    assert!(post(&client, &server).await.unwrap().bytes().await.unwrap_err().is_decode());
    server.assert_writes(3);
}

#[tokio::test]
async fn a_client_that_leaves_an_idle_connection_takes_no_step() {
    let tls = Tls::new();
    let server = FaultServer::start_tls(&tls, [Fault::ok("first"), Fault::ok("second"), Fault::ok("third")]).await;
    let client = trusting(&tls);
    assert_eq!(post(&client, &server).await.unwrap().text().await.unwrap(), "first");
    drop(client);
    server.until_closed(1).await;
    assert_eq!(post(&trusting(&tls), &server).await.unwrap().text().await.unwrap(), "second");
}
