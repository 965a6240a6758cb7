//! Each fault of the `FaultServer` over HTTP/2, as plain reqwest sees it and as the server recorded
//! it.

use std::{error::Error, time::Duration};

use reqwest::{Client, Response};
use reqwest_safe_retry::testing::{FaultServer, H2Fault, H2Reason};

const SHORT: Duration = Duration::from_millis(60);

fn client() -> Client {
    // Its own resends would hide what one send meets.
    let builder = Client::builder().no_proxy().http2_prior_knowledge().retry(reqwest::retry::never());
    builder.timeout(Duration::from_secs(5)).build().unwrap()
}

async fn post(client: &Client, server: &FaultServer) -> reqwest::Result<Response> {
    client.post(server.url("/orders?id=1")).body("one coffee").send().await
}

async fn served(fault: H2Fault) -> (FaultServer, reqwest::Result<Response>) {
    let server = FaultServer::start_h2([fault]).await;
    let result = post(&client(), &server).await;
    (server, result)
}

fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[tokio::test]
async fn streams_of_one_connection_are_answered_and_recorded() {
    let server = FaultServer::start_h2([H2Fault::status(503).with_header("retry-after", "2"), H2Fault::ok("done").after(SHORT)]).await;
    let client = client();
    let first = post(&client, &server).await.unwrap();
    assert_eq!((first.status().as_u16(), first.version()), (503, http::Version::HTTP_2));
    assert_eq!(first.headers()["retry-after"], "2");
    assert_eq!(post(&client, &server).await.unwrap().text().await.unwrap(), "done");
    server.assert_writes(2);
    server.assert_connections(1);
    let request = server.requests().remove(0);
    assert_eq!((request.method().as_str(), request.body()), ("POST", &b"one coffee"[..]));
    assert_eq!(request.url(), &server.url("/orders?id=1"));
}

#[tokio::test]
async fn a_large_body_passes_the_window() {
    let server = FaultServer::start_h2([]).await;
    client().post(server.url("/")).body(vec![7; 1 << 20]).send().await.unwrap();
    assert!(server.requests()[0].body() == vec![7; 1 << 20]);
}

#[tokio::test]
async fn a_stream_is_reset_with_the_reason_of_the_script() {
    let reasons = [H2Reason::REFUSED_STREAM, H2Reason::INTERNAL_ERROR, H2Reason::CANCEL, H2Reason::NO_ERROR, H2Reason::ENHANCE_YOUR_CALM];
    for reason in reasons {
        let (server, result) = served(H2Fault::reset_stream(reason)).await;
        let error = result.unwrap_err();
        let h2 = find::<h2::Error>(&error).unwrap();
        assert!(h2.is_reset() && h2.is_remote(), "{error:?}");
        assert_eq!(h2.reason().map(u32::from), Some(reason.code()));
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn a_go_away_below_the_stream_says_that_it_was_not_processed() {
    for reason in [H2Reason::NO_ERROR, H2Reason::ENHANCE_YOUR_CALM, H2Reason::PROTOCOL_ERROR] {
        let server = FaultServer::start_h2([H2Fault::go_away_below(reason), H2Fault::ok("done")]).await;
        let client = client();
        let error = post(&client, &server).await.unwrap_err();
        let h2 = find::<h2::Error>(&error).unwrap();
        assert!(h2.is_go_away() && h2.is_remote(), "{error:?}");
        assert_eq!(h2.reason().map(u32::from), Some(reason.code()));
        assert_eq!(post(&client, &server).await.unwrap().status(), 200);
        server.assert_connections(2);
    }
}

#[tokio::test]
async fn a_go_away_that_spares_later_streams_only_fails_those() {
    let server = FaultServer::start_h2([H2Fault::ok("kept").after(SHORT), H2Fault::go_away_below(H2Reason::NO_ERROR)]).await;
    let client = client();
    let (kept, refused) = tokio::join!(post(&client, &server), async {
        server.until_requests(1).await;
        post(&client, &server).await
    });
    assert_eq!(kept.unwrap().text().await.unwrap(), "kept");
    assert!(find::<h2::Error>(&refused.unwrap_err()).unwrap().is_go_away());
    server.assert_connections(1);
}

#[tokio::test]
async fn a_go_away_that_includes_the_stream_and_a_lost_connection_prove_nothing() {
    let faults = [H2Fault::go_away_including(H2Reason::NO_ERROR), H2Fault::close(), H2Fault::reset()];
    for fault in faults {
        let (server, result) = served(fault.clone()).await;
        let error = result.unwrap_err();
        assert!(!error.is_timeout() && !error.is_connect(), "{fault:?}: {error:?}");
        assert!(find::<h2::Error>(&error).is_none_or(|h2| !h2.is_go_away() || !h2.is_remote()), "{fault:?}: {error:?}");
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn a_body_is_reset_closed_or_stalled_after_its_head() {
    let answer = H2Fault::ok("0123");
    for fault in [answer.clone().with_body_reset(H2Reason::CANCEL), answer.clone().with_body_closed()] {
        let (_server, response) = served(fault.clone()).await;
        let response = response.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
        assert_eq!(response.status(), 200);
        assert!(response.bytes().await.unwrap_err().is_decode());
    }
    let (_server, response) = served(answer.with_body_stalled()).await;
    let mut response = response.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "0123");
    assert!(tokio::time::timeout(SHORT, response.chunk()).await.is_err());
}

#[tokio::test]
async fn a_garbage_frame_is_the_clients_own_complaint() {
    let (server, result) = served(H2Fault::garbage()).await;
    let error = result.unwrap_err();
    let h2 = find::<h2::Error>(&error).unwrap();
    assert!(h2.is_go_away() && h2.is_library() && !h2.is_remote(), "{error:?}");
    server.assert_writes(1);
}

#[tokio::test]
async fn a_server_without_settings_streams_or_window_gets_no_complete_request() {
    for (fault, heads) in [(H2Fault::without_window(), 1), (H2Fault::without_streams(), 0)] {
        let server = FaultServer::start_h2([fault.clone()]).await;
        let client = client();
        // The first stream may leave before the settings arrive; from the second on they count.
        drop(tokio::time::timeout(SHORT, client.get(server.url("/")).send()).await);
        let before = server.requests().len();
        assert!(tokio::time::timeout(SHORT, post(&client, &server)).await.is_err(), "{fault:?}");
        assert_eq!(server.requests().len() - before, heads, "{fault:?}");
        server.assert_writes(0);
        server.assert_connections(1);
    }
    let server = FaultServer::start_h2([H2Fault::close_on_accept()]).await;
    assert!(!post(&client(), &server).await.unwrap_err().is_timeout());
    server.assert_requests(0);
}

#[tokio::test]
async fn a_silent_server_and_a_hanging_stream_never_answer() {
    let server = FaultServer::start_h2([H2Fault::silent()]).await;
    assert!(tokio::time::timeout(SHORT, post(&client(), &server)).await.is_err());
    server.assert_requests(0);

    let server = FaultServer::start_h2([H2Fault::hang(), H2Fault::ok("served")]).await;
    let client = client();
    let (hung, served) = tokio::join!(tokio::time::timeout(SHORT, post(&client, &server)), async {
        server.until_complete(1).await;
        post(&client, &server).await
    });
    assert!(hung.is_err());
    assert_eq!(served.unwrap().text().await.unwrap(), "served");
}
