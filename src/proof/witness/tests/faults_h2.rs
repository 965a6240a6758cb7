//! HTTP/2: what the server refused, and what merely failed.

use super::{fault::*, h2::*, support::*};
use crate::{policy::Evidence, proof::cause::Cause, proof::witness::Watch};

const NO_ERROR: u32 = 0x0;
const PROTOCOL_ERROR: u32 = 0x1;
const INTERNAL_ERROR: u32 = 0x2;
const REFUSED_STREAM: u32 = 0x7;
const CANCEL: u32 = 0x8;
const ENHANCE_YOUR_CALM: u32 = 0xb;

fn over_h2(b: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    b.http2_prior_knowledge()
}

/// Lets each request arrive, answers with these bytes, and holds the line.
async fn replying(reply: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static) -> Peer {
    Peer::serving(move |mut wire| {
        let reply = reply.clone();
        async move {
            wire.greet_h2().await;
            while let Some(stream) = wire.h2_request().await {
                wire.say(reply(stream)).await;
            }
        }
    })
    .await
}

/// Lets one request arrive, answers with these bytes, and closes.
async fn closing_after(reply: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static) -> Peer {
    Peer::serving(move |mut wire| {
        let reply = reply.clone();
        async move {
            wire.greet_h2().await;
            if let Some(stream) = wire.h2_request().await {
                wire.say(reply(stream)).await;
            }
        }
    })
    .await
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    h2_frame(3, 0, stream, &code.to_be_bytes())
}

fn go_away(last: u32, code: u32) -> Vec<u8> {
    h2_frame(7, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

#[tokio::test]
async fn a_refused_stream_is_proof() {
    let peer = replying(|stream| reset(stream, REFUSED_STREAM)).await;
    Fault::of("refused stream", &peer).with(over_h2).leaves(Proof::Refused, Cause::Refused).await;
}

#[tokio::test]
async fn a_body_that_a_goaway_does_not_cover_is_proof_whatever_the_code() {
    for code in [NO_ERROR, PROTOCOL_ERROR, ENHANCE_YOUR_CALM] {
        let peer = replying(move |_| go_away(0, code)).await;
        Fault::of("goaway", &peer).with(over_h2).leaves(Proof::WentAway, Cause::Refused).await;
    }
}

#[tokio::test]
async fn a_stream_that_a_goaway_covers_leaves_nothing_proven() {
    for code in [NO_ERROR, PROTOCOL_ERROR, ENHANCE_YOUR_CALM] {
        let peer = closing_after(move |stream| go_away(stream, code)).await;
        Fault::of("goaway", &peer)
            .with(over_h2)
            .each(|told, _, came| {
                assert_eq!(came.evidence, Evidence::Unknown, "{told}");
            })
            .await;
    }
}

#[tokio::test]
async fn a_stream_reset_for_another_reason_leaves_nothing_proven() {
    for code in [NO_ERROR, INTERNAL_ERROR, CANCEL, ENHANCE_YOUR_CALM] {
        let peer = replying(move |stream| reset(stream, code)).await;
        Fault::of("reset", &peer).with(over_h2).leaves(Proof::Nothing, Cause::Reset).await;
    }
}

#[tokio::test]
async fn an_answer_whose_stream_is_then_refused_leaves_nothing_proven() {
    let peer = replying(|stream| [h2_ok_head(stream), reset(stream, REFUSED_STREAM)].concat()).await;
    Fault::of("head, then refused", &peer).with(over_h2).each(|told, _, came| assert_eq!(came.evidence, Evidence::Unknown, "{told}")).await;
}

#[tokio::test]
async fn a_broken_connection_leaves_nothing_proven() {
    let closed = closing_after(|_| vec![]).await;
    let garbage = replying(|_| h2_frame(4, 0, 0, &[1, 2, 3])).await;
    Fault::of("closed", &closed).with(over_h2).each(|told, _, came| assert_eq!(came.evidence, Evidence::Unknown, "{told}")).await;
    Fault::of("garbage", &garbage).with(over_h2).leaves(Proof::Nothing, Cause::Protocol).await;
}

#[tokio::test]
async fn a_silent_server_leaves_nothing_proven() {
    let silent = replying(|_| vec![]).await;
    Fault::of("total timeout", &silent).with(|b| over_h2(b).timeout(SOON)).leaves(Proof::Nothing, CLIENT_LIMIT).await;
    Fault::of("cut by us", &silent).with(over_h2).cut().leaves(Proof::Nothing, None).await;
    // No stream may be opened: the request was asked for all the same.
    let closed_door = Peer::serving(|mut wire| async move {
        wire.say(h2_frame(4, 0, 0, &[0, 3, 0, 0, 0, 0])).await;
        wire.silence().await;
    })
    .await;
    let waiting = Fault::of("no streams allowed", &closed_door).with(over_h2).cut();
    waiting.never_claims_too_much().await;
}

#[tokio::test]
async fn a_server_without_http2_never_claims_too_much() {
    let old = Peer::answering(|_| ok()).await;
    let closed = Peer::serving(|wire| async move { drop(wire) }).await;
    for _ in 0..5 {
        Fault::of("http/1 only", &old).with(over_h2).never_claims_too_much().await;
        Fault::of("closes at once", &closed).with(over_h2).never_claims_too_much().await;
    }
}

#[tokio::test]
async fn a_request_that_waits_for_another_ones_connection_is_proven_unsent() {
    let tls = Peer::serving(Wire::silence).await;
    let client = Road::PavedOff.client(over_h2(plain()));
    let url = format!("https://{}/", tls.address);
    let send = || witnessed(&client, Shape::Post.request(&url), SOON, Watch::Body);
    let (first, second) = tokio::join!(send(), send());
    assert_eq!((first.evidence, second.evidence), (Evidence::Unprocessed, Evidence::Unprocessed));
}

#[tokio::test]
async fn the_paved_client_sends_a_refused_post_once() {
    let peer = replying(|stream| reset(stream, REFUSED_STREAM)).await;
    for road in Road::ALL.into_iter().filter(|road| road.is_paved()) {
        for shape in [Shape::EmptyPost, Shape::Post] {
            let before = peer.h2_requests();
            witnessed(&road.client(over_h2(plain())), shape.request(&peer.url("/")), PATIENCE, Watch::Errors).await;
            assert_eq!(peer.h2_requests() - before, 1, "{road:?} {shape:?}");
        }
    }
    let reckless = plain().http2_prior_knowledge().build().unwrap();
    let before = peer.h2_requests();
    reckless.execute(Shape::Post.request(&peer.url("/"))).await.unwrap_err();
    assert_eq!(peer.h2_requests() - before, 3, "what reqwest does on its own");
}
