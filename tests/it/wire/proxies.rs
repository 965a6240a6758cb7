//! Proxies that refuse. Neither reqwest nor hyper-util exports a type that tells a refusal from a
//! proxy that is away, so all of them are "not connected": nothing was sent, and it is tried as
//! often as the policy says. Should a type come to tell them apart, these tests are where to begin.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use reqwest::Proxy;
use reqwest_safe_retry::{
    Cause, Evidence, ReportSlot, RetryReport, SafeRetry,
    policy::ResendReason,
    testing::{Fault, FaultServer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::wire::{QUICK, Road, bounded, plain};

/// What an unprotected POST through this proxy comes to.
async fn post_through(road: Road, proxy: &str) -> RetryReport {
    let builder = plain().proxy(Proxy::all(proxy).unwrap());
    let slot = ReportSlot::new();
    let client = road.client_of(SafeRetry::new().with_policy(QUICK), builder);
    let request = client.post("https://origin.test/orders").body("1").with_extension(slot.clone());
    let error = bounded(request.send()).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    slot.take().unwrap()
}

fn assert_tried_three_times(report: &RetryReport) {
    assert_eq!(report.attempts().len(), 3);
    for attempt in report.attempts() {
        assert_eq!((attempt.cause(), attempt.evidence(), attempt.hint()), (Cause::Connect, Evidence::Unprocessed, None));
    }
    let resends: Vec<_> = report.attempts().iter().map(|attempt| attempt.resend()).collect();
    assert_eq!(resends, [Some(ResendReason::ProvenUnprocessed), Some(ResendReason::ProvenUnprocessed), None]);
}

#[tokio::test]
async fn a_refused_tunnel_is_not_connected_and_tried_again_without_the_wait_of_the_proxy() {
    for road in [Road::Paved, Road::Witnessed] {
        for status in [407, 403, 503] {
            let refusal = Fault::status(status).with_header("retry-after", "30");
            let proxy = FaultServer::start([refusal.clone(), refusal.clone(), refusal]).await;
            assert_tried_three_times(&post_through(road, proxy.url("/").as_str()).await);
            let methods: Vec<_> = proxy.requests().iter().map(|request| request.method().to_string()).collect();
            assert_eq!(methods, ["CONNECT"; 3], "{status}");
        }
    }
}

/// Says these replies, one after each message of the client, and counts its connections.
async fn socks(replies: &'static [&'static [u8]]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await?;
            counted.fetch_add(1, Ordering::SeqCst);
            for reply in replies {
                if client.read(&mut [0; 512]).await? > 0 {
                    client.write_all(reply).await?;
                }
            }
        }
        #[expect(unreachable_code, reason = "it says what the question marks give")]
        std::io::Result::Ok(())
    });
    (address, connections)
}

/// RFC 1928 §3 and §6.
#[tokio::test]
async fn a_refusal_of_a_socks_proxy_is_not_connected_and_tried_again() {
    const NOT_ALLOWED: &[u8] = &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0];
    const NO_ACCEPTABLE_METHOD: &[u8] = &[5, 0xff];
    for road in [Road::Paved, Road::Witnessed] {
        let scripts: [&'static [&'static [u8]]; 2] = [&[&[5, 0], NOT_ALLOWED], &[NO_ACCEPTABLE_METHOD]];
        for replies in scripts {
            let (address, connections) = socks(replies).await;
            assert_tried_three_times(&post_through(road, &format!("socks5h://{address}")).await);
            assert_eq!(connections.load(Ordering::SeqCst), 3, "{replies:?}");
        }
    }
}
