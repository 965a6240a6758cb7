//! HTTP/1 and everything before it: each fault on every kind of client, with every shape of
//! request.

use std::{io, net::SocketAddr, time::Duration};

use reqwest::{
    Proxy, Response,
    dns::{Name, Resolve, Resolving},
};
use tokio::net::{TcpSocket, TcpStream};

use super::{fault::*, support::*};
use crate::{
    policy::Evidence,
    proof::cause::Cause,
    proof::errors::{self, Upload},
    proof::witness::{SendSlot, Watch},
};

struct NoSuchName;

impl Resolve for NoSuchName {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(async { Err(io::Error::other("no such name").into()) })
    }
}

struct SilentResolver;

impl Resolve for SilentResolver {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

/// A listener whose queue is full, so that the kernel drops whatever knocks.
async fn full_backlog() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = vec![];
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    (address, (listener, waiting))
}

#[tokio::test]
async fn a_refused_connection_is_proof() {
    Fault::at("refused", format!("http://{}/", dead_address().await)).leaves(Proof::BeforeConnection, Cause::Connect).await;
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_proof() {
    Fault::at("no such name", "http://shop.invalid/")
        .with(|b| b.dns_resolver(NoSuchName))
        .leaves(Proof::BeforeConnection, Cause::Connect)
        .await;
}

#[tokio::test]
async fn a_connect_timeout_is_proof() {
    let hanging = Fault::at("resolver hangs", "http://shop.invalid/").with(|b| b.dns_resolver(SilentResolver).connect_timeout(SOON));
    hanging.leaves(Proof::BeforeConnection, CLIENT_LIMIT).await;
}

#[tokio::test]
async fn a_connect_timeout_under_a_full_backlog_is_proof() {
    let (address, _held) = full_backlog().await;
    let hanging = Fault::at("full backlog", format!("http://{address}/")).with(|b| b.connect_timeout(SOON));
    hanging.leaves(Proof::BeforeConnection, CLIENT_LIMIT).await;
}

#[tokio::test]
async fn a_limit_that_fires_while_connecting_is_proof_to_the_tracker_alone() {
    let (address, _held) = full_backlog().await;
    let name = "http://shop.invalid/";
    Fault::at("resolver, total", name)
        .with(|b| b.dns_resolver(SilentResolver).timeout(SOON))
        .leaves(Proof::TrackerOnly, CLIENT_LIMIT)
        .await;
    Fault::at("resolver, read", name)
        .with(|b| b.dns_resolver(SilentResolver).read_timeout(SOON))
        .leaves(Proof::TrackerOnly, CLIENT_LIMIT)
        .await;
    Fault::at("resolver, ours", name).with(|b| b.dns_resolver(SilentResolver)).cut().leaves(Proof::TrackerOnly, None).await;
    Fault::at("backlog, ours", format!("http://{address}/")).cut().leaves(Proof::TrackerOnly, None).await;
}

#[cfg(feature = "testing-tls")]
#[tokio::test]
async fn so_is_a_limit_that_fires_in_a_handshake() {
    let tls = Peer::serving(Wire::silence).await;
    let handshake = format!("https://{}/", tls.address);
    Fault::at("handshake, total", &handshake).with(|b| b.timeout(SOON)).leaves(Proof::TrackerOnly, CLIENT_LIMIT).await;
    Fault::at("handshake, ours", &handshake).cut().leaves(Proof::TrackerOnly, None).await;
}

#[cfg(feature = "testing-tls")]
#[tokio::test]
async fn a_failed_handshake_is_proof() {
    let plaintext = Peer::serving(|mut wire| async move {
        wire.hear().await;
        wire.say(ok()).await;
    })
    .await;
    let closing = Peer::serving(|mut wire| async move {
        wire.hear().await;
    })
    .await;
    let hanging = Peer::serving(Wire::silence).await;
    let url = |peer: &Peer| format!("https://{}/", peer.address);
    Fault::at("plaintext server", url(&plaintext)).leaves(Proof::BeforeConnection, Cause::Connect).await;
    Fault::at("server closes", url(&closing)).leaves(Proof::BeforeConnection, Cause::Connect).await;
    Fault::at("hangs, connect timeout", url(&hanging))
        .with(|b| b.connect_timeout(SOON))
        .leaves(Proof::BeforeConnection, CLIENT_LIMIT)
        .await;
}

#[cfg(feature = "testing-tls")]
#[tokio::test]
async fn an_untrusted_certificate_is_proof_and_broken() {
    use std::sync::Arc;

    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let peer = Peer::serving(move |wire| {
        let acceptor = acceptor.clone();
        async move {
            let _ = acceptor.accept(wire.stream).await;
        }
    })
    .await;
    let untrusted = Fault::at("untrusted", format!("https://localhost:{}/", peer.address.port()));
    untrusted.leaves(Proof::BeforeConnection, Cause::Certificate).await;
    untrusted.each(|told, _, came| assert!(came.error().is_some_and(is_broken), "{told}")).await;
}

#[cfg(feature = "testing-tls")]
#[tokio::test]
async fn a_proxy_tunnel_that_does_not_open_is_proof() {
    for (name, answer) in [
        ("bad gateway", "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"),
        ("needs a password", "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"),
        ("closes", ""),
    ] {
        let proxy = Peer::serving(move |mut wire| async move {
            wire.request().await;
            wire.say(answer).await;
        })
        .await;
        let through = |b: reqwest::ClientBuilder| b.proxy(Proxy::all(proxy.url("")).unwrap());
        Fault::at(name, "https://shop.invalid/").with(through).leaves(Proof::BeforeConnection, Cause::Connect).await;
    }
}

#[tokio::test]
async fn a_connection_that_ends_at_once_never_claims_too_much() {
    let reset = Peer::serving(|wire| async move { wire.reset() }).await;
    let closed = Peer::serving(|wire| async move { drop(wire) }).await;
    let banner = Peer::serving(|mut wire| async move {
        wire.say("220 mail.example ready\r\n").await;
        wire.silence().await;
    })
    .await;
    for _ in 0..10 {
        Fault::of("reset", &reset).never_claims_too_much().await;
        Fault::of("closed", &closed).never_claims_too_much().await;
        Fault::of("banner", &banner).never_claims_too_much().await;
    }
}

#[tokio::test]
async fn a_silent_server_leaves_nothing_proven() {
    let silent = Peer::serving(Wire::silence).await;
    Fault::of("total timeout", &silent).with(|b| b.timeout(SOON)).leaves(Proof::Nothing, CLIENT_LIMIT).await;
    Fault::of("read timeout", &silent).with(|b| b.read_timeout(SOON)).leaves(Proof::Nothing, CLIENT_LIMIT).await;
    Fault::of("cut by us", &silent).cut().leaves(Proof::Nothing, None).await;
    let deaf = Peer::serving(|wire| async move {
        let _open = wire;
        std::future::pending().await
    })
    .await;
    Fault::of("never reads", &deaf).cut().leaves(Proof::Nothing, None).await;
}

#[tokio::test]
async fn a_connection_that_ends_after_the_request_leaves_nothing_proven() {
    let closed = Peer::serving(|mut wire| async move {
        wire.request().await;
    })
    .await;
    let reset = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.reset();
    })
    .await;
    let partial = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.say("HTTP/1.1 200 OK\r\ncontent-le").await;
    })
    .await;
    let garbage = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.say("EHLO shop\r\n\r\n").await;
        wire.silence().await;
    })
    .await;
    Fault::of("closed", &closed).leaves(Proof::Nothing, Cause::PeerClosed).await;
    Fault::of("reset", &reset).leaves(Proof::Nothing, Cause::Reset).await;
    Fault::of("partial head", &partial).leaves(Proof::Nothing, Cause::PeerClosed).await;
    Fault::of("garbage", &garbage).leaves(Proof::Nothing, Cause::Protocol).await;
}

#[tokio::test]
async fn an_upload_cut_in_the_middle_leaves_nothing_proven() {
    const UPLOAD: usize = 8 << 20;
    let reset = Peer::serving(|mut wire| async move {
        wire.at_least(64 << 10).await;
        wire.reset();
    })
    .await;
    let closed = Peer::serving(|mut wire| async move {
        wire.at_least(64 << 10).await;
    })
    .await;
    for (peer, road) in [&reset, &closed].into_iter().flat_map(|peer| Road::ALL.map(|road| (peer, road))) {
        let mut request = Shape::Post.request(&peer.url("/"));
        *request.body_mut() = Some(vec![7; UPLOAD].into());
        let came = witnessed(&road.client(plain()), request, PATIENCE, Watch::Body).await;
        assert!(came.error().is_some());
        assert_eq!(came.evidence, Evidence::Unknown, "{road:?}");
    }
}

#[tokio::test]
async fn an_answer_proves_nothing_by_itself() {
    let early = Peer::serving(|mut wire| async move {
        wire.hear().await;
        wire.say("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        wire.silence().await;
    })
    .await;
    let cut = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort").await;
    })
    .await;
    let stalled = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort").await;
        wire.silence().await;
    })
    .await;
    Fault::of("early answer", &early).leaves(Proof::Nothing, None).await;
    Fault::of("body cut", &cut).leaves(Proof::Nothing, None).await;
    Fault::of("body stalls", &stalled).leaves(Proof::Nothing, None).await;
    // A proxy in the clear answers for the origin.
    let proxied = Fault::at("proxy answers", "http://shop.invalid/").with(|b| b.proxy(Proxy::all(early.url("")).unwrap()));
    proxied.leaves(Proof::Nothing, None).await;

    for (peer, limit) in [(&cut, PATIENCE), (&stalled, SOON)] {
        let answer: Response = plain().read_timeout(limit).build().unwrap().get(peer.url("/")).send().await.unwrap();
        let lost = answer.bytes().await.unwrap_err();
        assert_eq!((errors::cause(&lost), errors::proof(&lost, Upload::Read)), (Cause::BodyLost, Evidence::Unknown));
        assert!(!is_broken(&lost));
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_leaves_nothing_proven_of_what_was_sent() {
    let hasty = Peer::serving(|mut wire| async move {
        wire.request().await;
        wire.say(ok()).await;
    })
    .await;
    for road in Road::ALL {
        let client = road.client(plain());
        for round in 0..20 {
            let first = witnessed(&client, Shape::Get.request(&hasty.url("/first")), PATIENCE, Watch::Errors).await;
            first.result.unwrap().unwrap().bytes().await.unwrap();
            let path = format!("/{road:?}-{round}");
            let second = witnessed(&client, Shape::Post.request(&hasty.url(&path)), PATIENCE, Watch::Body).await;
            let arrived = hasty.requests().iter().any(|request| request.contains(&path));
            assert!(second.evidence == Evidence::Unknown || !arrived, "{path}: {:?}", second.result);
        }
    }
}

#[tokio::test]
async fn a_request_body_that_fails_is_not_broken_and_proves_nothing() {
    let silent = Peer::serving(Wire::silence).await;
    for road in Road::ALL {
        // What fails inside is another client's refused connection: proof about that one, not about
        // ours.
        let elsewhere = plain().build().unwrap().get(format!("http://{}", dead_address().await)).send().await.unwrap_err();
        assert_eq!(errors::proof(&elsewhere, Upload::Open), Evidence::Unprocessed);
        let chunks = futures_util::stream::iter([Ok("first"), Err(elsewhere)]);
        let mut request = Shape::Post.request(&silent.url("/"));
        *request.body_mut() = Some(reqwest::Body::wrap_stream(chunks));
        let came = witnessed(&road.client(plain()), request, PATIENCE, Watch::Body).await;
        let error = came.error().unwrap();
        assert_eq!((came.evidence, errors::cause(error)), (Evidence::Unknown, Cause::RequestBody), "{road:?}: {error:?}");
        assert!(!is_broken(error));
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_sent_as_it_is_is_broken() {
    let bad_scheme = plain().build().unwrap().get("ftp://shop.invalid/").send().await.unwrap_err();
    assert!(is_broken(&bad_scheme));
    assert_eq!(errors::cause(&bad_scheme), Cause::Request);

    let silent = Peer::serving(Wire::silence).await;
    let too_old = plain().build().unwrap().get(silent.url("/")).version(http::Version::HTTP_09).send().await.unwrap_err();
    assert!(is_broken(&too_old), "{too_old:?}");
    assert_eq!(errors::cause(&too_old), Cause::Request);
}

#[tokio::test]
async fn a_message_that_was_never_asked_for_is_unsent_whatever_its_head_announces() {
    let (address, _held) = full_backlog().await;
    let url = format!("http://{address}/");
    for value in ["0", "00", "10"] {
        let mut request = Shape::Post.request(&url);
        request.headers_mut().insert(http::header::CONTENT_LENGTH, value.parse().unwrap());
        let came = witnessed(&Road::PavedOff.client(plain()), request, SOON, Watch::Body).await;
        assert_eq!(came.evidence, Evidence::Unprocessed, "content-length: {value}");
    }
}

#[test]
fn nothing_witnessed_is_no_verdict() {
    let slot = SendSlot::new(Watch::Body);
    assert_eq!((slot.verdict(), slot.refusal(http::StatusCode::TOO_EARLY)), (None, None));
}
