//! An inner middleware may send more than once: the worst of its sends counts.

use http::Extensions;
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Middleware, Next, Result};

use super::{fault::SOON, support::*};
use crate::{policy::Evidence, proof::witness::Watch};

/// Sends to each of these in turn, whatever comes, and gives back the last result. An auth refresh
/// is such a one.
struct InTurn(Vec<Url>);

#[async_trait::async_trait]
impl Middleware for InTurn {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut last = None;
        for url in &self.0 {
            let mut copy = request.try_clone().unwrap();
            url.clone_into(copy.url_mut());
            last = Some(next.clone().run(copy, extensions).await);
        }
        last.unwrap()
    }
}

/// Sends to both at once and keeps who is first.
struct AtOnce(Url, Url);

#[async_trait::async_trait]
impl Middleware for AtOnce {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut other_extensions = extensions.clone();
        let [mut one, mut other] = [request.try_clone().unwrap(), request];
        (*one.url_mut(), *other.url_mut()) = (self.0.clone(), self.1.clone());
        tokio::select! {
            biased;
            result = next.clone().run(one, extensions) => result,
            result = next.clone().run(other, &mut other_extensions) => result,
        }
    }
}

struct Places {
    _peers: Vec<Peer>,
    dead: Url,
    closing: Url,
    answering: Url,
    early: Url,
    hanging: Url,
    seen_other: Url,
}

async fn places() -> Places {
    let dead: Url = format!("http://{}/", dead_address().await).parse().unwrap();
    let closing = Peer::serving(|mut wire| async move {
        wire.request().await;
    })
    .await;
    let answering = Peer::answering(|_| ok()).await;
    let early = Peer::answering(|_| "HTTP/1.1 425 Too Early\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    // Connecting to it never ends: it is asked for TLS.
    let hanging = Peer::serving(Wire::silence).await;
    let to = dead.to_string();
    let seen_other = Peer::answering(move |_| redirect_to(303, &to)).await;
    let url = |peer: &Peer| peer.url("/").parse().unwrap();
    Places {
        closing: url(&closing),
        answering: url(&answering),
        early: url(&early),
        hanging: format!("https://{}/", hanging.address).parse().unwrap(),
        seen_other: url(&seen_other),
        dead,
        _peers: vec![closing, answering, early, hanging, seen_other],
    }
}

#[tokio::test]
async fn one_send_that_may_have_arrived_outweighs_every_proof() {
    let Places { dead, closing, answering, early, hanging, seen_other, _peers } = &places().await;
    let rows: &[(&[&Url], Evidence, Evidence)] = &[
        (&[dead, dead], Evidence::Unprocessed, Evidence::Unknown),
        (&[dead, closing], Evidence::Unknown, Evidence::Unknown),
        (&[closing, dead], Evidence::Unknown, Evidence::Unknown),
        (&[answering, dead], Evidence::Unknown, Evidence::Unknown),
        (&[seen_other, dead], Evidence::Unknown, Evidence::Unknown),
        (&[dead, seen_other, dead], Evidence::Unknown, Evidence::Unknown),
        (&[dead, hanging], Evidence::Unprocessed, Evidence::Unknown),
        (&[closing, hanging], Evidence::Unknown, Evidence::Unknown),
        // A refusal speaks for the last send; those before need a proof of their own.
        (&[dead, early], Evidence::Unknown, Evidence::Unprocessed),
        (&[closing, early], Evidence::Unknown, Evidence::Unknown),
        (&[early, early], Evidence::Unknown, Evidence::Unknown),
        (&[answering], Evidence::Unknown, Evidence::Unprocessed),
    ];
    for road in [Road::PavedOff, Road::PavedDefault, Road::ExistingOff] {
        for shape in [Shape::EmptyPost, Shape::Post] {
            for (row, (urls, evidence, refusal)) in rows.iter().enumerate() {
                let client = road.client_with(plain(), InTurn(urls.iter().map(|url| (*url).clone()).collect()));
                let came = witnessed(&client, shape.request(dead.as_str()), SOON, Watch::Body).await;
                let untracked_cut = urls.last() == Some(&hanging) && road.follows() && shape == Shape::Post;
                let expected = if untracked_cut { Evidence::Unknown } else { *evidence };
                assert_eq!((came.evidence, came.refusal), (expected, *refusal), "{road:?} {shape:?} row {row}: {:?}", came.result);
            }
        }
    }
}

#[tokio::test]
async fn a_send_that_its_middleware_dropped_counts_as_well() {
    let Places { dead, closing, hanging, _peers, .. } = &places().await;
    let silent = Peer::serving(Wire::silence).await;
    let silent: Url = silent.url("/").parse().unwrap();
    for (one, other, expected) in [
        (hanging, dead, Evidence::Unprocessed),
        (dead, hanging, Evidence::Unprocessed),
        (hanging, closing, Evidence::Unknown),
        (hanging, hanging, Evidence::Unprocessed),
        (&silent, hanging, Evidence::Unknown),
    ] {
        let client = Road::PavedOff.client_with(plain(), AtOnce(one.clone(), other.clone()));
        let came = witnessed(&client, Shape::Post.request(dead.as_str()), SOON, Watch::Body).await;
        assert_eq!(came.evidence, expected, "{one} {other}: {:?}", came.result);
    }
}
