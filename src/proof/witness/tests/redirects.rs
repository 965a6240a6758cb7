//! Redirects happen below every middleware: the witness changes none, and is fooled by none.

use http::{Method, StatusCode, header::AUTHORIZATION};
use reqwest::{Body, Request};

use super::{fault::*, support::*};
use crate::{
    policy::Evidence,
    proof::cause::Cause,
    proof::errors,
    proof::witness::{SendWitness, Watch, counting},
};

const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The bodies that reqwest treats differently when it follows.
#[derive(Debug, Clone, Copy)]
enum Content {
    None,
    Empty,
    Bytes,
    Stream,
}

impl Content {
    const ALL: [Self; 4] = [Self::None, Self::Empty, Self::Bytes, Self::Stream];

    fn body(self) -> Option<Body> {
        match self {
            Self::None => None,
            Self::Empty => Some(Body::from("")),
            Self::Bytes => Some(Body::from("0123456789")),
            Self::Stream => Some(Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("0123456789")]))),
        }
    }
}

fn request(method: &Method, url: &str, content: Content) -> Request {
    let mut request = Request::new(method.clone(), url.parse().unwrap());
    *request.body_mut() = content.body();
    request.headers_mut().insert(AUTHORIZATION, "Bearer secret".parse().unwrap());
    request
}

/// Status, last address and next one of an answer; cause and address of an error.
fn outcome(result: reqwest::Result<reqwest::Response>) -> String {
    match result {
        Ok(answer) => format!("{} {} {:?}", answer.status(), answer.url(), answer.headers().get("location")),
        Err(error) => format!("{:?} {:?}", errors::cause(&error), error.url().map(reqwest::Url::path)),
    }
}

/// From one origin to another and back, with the status that the path names; or in circles.
async fn two_origins() -> (Peer, Peer) {
    let other = Peer::answering(|request| {
        let (status, back) = request.split_once("/to/").map_or((200, ""), |(_, rest)| (rest[..3].parse().unwrap(), &rest[4..]));
        let back = back.split(' ').next().unwrap_or_default();
        redirect_to(status, &format!("http://{back}/end"))
    })
    .await;
    let elsewhere = other.address;
    let first = Peer::serving(move |mut wire| async move {
        let own = wire.stream.local_addr().unwrap();
        while let Some(request) = wire.request().await {
            let request = String::from_utf8_lossy(&request).into_owned();
            let answer = match request.split_once("/from/") {
                Some((_, rest)) => redirect_to(rest[..3].parse().unwrap(), &format!("http://{elsewhere}/to/{}/{own}", &rest[..3])),
                None if request.contains("/loop") => redirect_to(302, "/loop"),
                None => ok(),
            };
            wire.say(if request.starts_with("HEAD") { answer.trim_end_matches("ok").to_owned() } else { answer }).await;
        }
    })
    .await;
    (first, other)
}

#[tokio::test]
async fn every_redirect_is_followed_as_without_the_witness() {
    // Each request on a connection of its own, so that what arrived can be compared in its order.
    let alone = || plain().pool_max_idle_per_host(0);
    let clients = Road::ALL.map(|road| (road, alone().redirect(road.policy()).build().unwrap(), road.client(alone())));
    for path in STATUSES.iter().map(|status| format!("/from/{status}")).chain(["/loop".to_owned()]) {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT] {
            for content in Content::ALL {
                let (first, other) = two_origins().await;
                let url = first.url(&path);
                let arrived = || (first.requests(), other.requests());
                for (road, bare, client) in &clients {
                    // The paved road tells no origin where a redirect came from.
                    let no_referer = |request: &String| {
                        let lines = request.split_inclusive("\r\n");
                        lines.filter(|line| !road.is_paved() || !line.starts_with("referer: ")).collect::<String>()
                    };
                    let new = |(one, two): (Vec<String>, Vec<String>)| {
                        let (all_one, all_two) = arrived();
                        let seen = |all: &[String]| all.iter().map(no_referer).collect::<Vec<_>>();
                        (seen(&all_one[one.len()..]), seen(&all_two[two.len()..]))
                    };
                    let before = arrived();
                    let expected = (outcome(bare.execute(request(&method, &url, content)).await), new(before));
                    let before = arrived();
                    let came = witnessed(client, request(&method, &url, content), PATIENCE, Watch::Body).await;
                    let result = came.result.unwrap().map_err(|error| match error {
                        reqwest_middleware::Error::Reqwest(error) => error,
                        reqwest_middleware::Error::Middleware(error) => panic!("{error}"),
                    });
                    assert_eq!((outcome(result), new(before)), expected, "{path} {method} {content:?} {road:?}");
                    assert_eq!(came.evidence, Evidence::Unknown);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_post_redirected_to_a_dead_host_is_unknown() {
    let dead = format!("http://{}/", dead_address().await);
    for status in STATUSES {
        let to = dead.clone();
        let peer = Peer::answering(move |_| redirect_to(status, &to)).await;
        let redirected = Fault::of("to a dead host", &peer);
        redirected
            .each(|told, row, came| {
                assert_eq!(came.evidence, Evidence::Unknown, "{told}");
                let post_again = row.shape == Shape::Post && matches!(status, 307 | 308);
                let refused = row.road.follows().then_some(Cause::Connect);
                assert!(came.error().map(errors::cause) == refused || post_again, "{status} {told}");
            })
            .await;
    }
    Fault::at("dead at once", dead).leaves(Proof::BeforeConnection, Cause::Connect).await;
}

#[tokio::test]
async fn a_witness_that_was_told_wrongly_is_not_fooled_about_a_write() {
    let dead = format!("http://{}/", dead_address().await);
    let peer = Peer::answering(move |_| redirect_to(303, &dead)).await;
    let client = existing(plain(), SendWitness::redirects_off());
    for shape in Shape::ALL {
        let came = witnessed(&client, shape.request(&peer.url("/")), PATIENCE, Watch::Body).await;
        assert_eq!(came.error().map(errors::cause), Some(Cause::Connect));
        assert_eq!(came.evidence, Evidence::Unknown, "{shape:?}");
    }
}

#[tokio::test]
async fn a_redirect_that_cannot_be_followed_is_broken_and_unknown() {
    let to_ftp = Peer::answering(|_| redirect_to(302, "ftp://files.invalid/")).await;
    let in_circles = Peer::answering(|_| redirect_to(302, "/round")).await;
    for (peer, cause) in [(&to_ftp, Cause::Request), (&in_circles, Cause::Redirect)] {
        let name = if cause == Cause::Request { "to ftp" } else { "in circles" };
        let stopped = Fault::of(name, peer);
        stopped
            .each(|told, row, came| {
                assert_eq!(came.evidence, Evidence::Unknown, "{told}");
                assert_eq!(came.error().map(errors::cause), row.road.follows().then_some(cause), "{told}");
                assert!(came.error().is_none_or(is_broken), "{told}");
            })
            .await;
    }
}

#[tokio::test]
async fn a_refusing_answer_speaks_for_its_own_request_only() {
    let peer = Peer::answering(|request| match request {
        created if created.starts_with("POST /orders") => redirect_to(303, "/orders"),
        _ => "HTTP/1.1 425 Too Early\r\ncontent-length: 0\r\n\r\n".to_owned(),
    })
    .await;
    for road in Road::ALL {
        let client = road.client(plain());
        let direct = witnessed(&client, Shape::Post.request(&peer.url("/early")), PATIENCE, Watch::Body).await;
        assert_eq!(direct.result.unwrap().unwrap().status(), StatusCode::TOO_EARLY);
        let sure = if road.is_paved() || !road.follows() { Evidence::Unprocessed } else { Evidence::Unknown };
        assert_eq!((direct.refusal, direct.evidence), (sure, Evidence::Unknown), "{road:?}");

        // The order exists; what was refused is looking at it, at the very same address.
        let followed = witnessed(&client, Shape::Post.request(&peer.url("/orders")), PATIENCE, Watch::Body).await;
        let status = followed.result.unwrap().unwrap().status();
        assert_eq!(status == StatusCode::TOO_EARLY, road.follows());
        assert!(status != StatusCode::TOO_EARLY || followed.refusal == Evidence::Unknown, "{road:?}");
    }
}

#[tokio::test]
async fn a_counting_policy_decides_as_the_policy_inside() {
    let peer =
        Peer::answering(|request| if request.contains("/again") { redirect_to(302, "/again/") } else { redirect_to(302, "/again") }).await;
    let stopping =
        || reqwest::redirect::Policy::custom(|attempt| if attempt.url().path() == "/again/" { attempt.stop() } else { attempt.follow() });
    // Nobody witnesses this one: counting outside of a scope is harmless.
    let client = plain().redirect(counting(stopping())).build().unwrap();
    let answer = client.get(peer.url("/")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.url().path()), (302, "/again"));
}
