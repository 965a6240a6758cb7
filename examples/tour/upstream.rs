//! A small shop on a loopback port that misbehaves on purpose. One connection is as good as
//! another; each request meets the next mood.

use std::{
    collections::VecDeque,
    future::pending,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{DATE, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpSocket},
    time::Instant,
};

use crate::orders::{Orders, Placed};

/// How the shop takes one request.
pub(crate) enum Mood {
    /// It does what it was asked.
    Serve,
    /// It does what it was asked, and the connection breaks before a byte of the answer has left.
    LoseAnswer,
    /// 503.
    Busy,
    /// 429, come back in so many seconds.
    TooManySeconds(u64),
    /// 429, come back at the time of day that is so many seconds away.
    TooManyUntil(u64),
    /// It reads the request and never answers.
    Hang,
}

pub(crate) struct Upstream {
    address: SocketAddr,
    shop: Arc<Shop>,
    closed: Mutex<Option<TcpSocket>>,
}

impl Upstream {
    /// Starts a shop with these moods; when they are used up, it serves.
    pub(crate) fn start(moods: impl Into<VecDeque<Mood>>) -> Result<Self> {
        let upstream = Self::closed(moods)?;
        upstream.open()?;
        Ok(upstream)
    }

    /// A shop that has its port but does not listen yet: whoever calls is refused, until it is
    /// opened.
    pub(crate) fn closed(moods: impl Into<VecDeque<Mood>>) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let shop = Shop { moods: Mutex::new(moods.into()), orders: Orders::open()?, since: Instant::now() };
        Ok(Self { address: socket.local_addr()?, shop: Arc::new(shop), closed: Mutex::new(Some(socket)) })
    }

    pub(crate) fn open(&self) -> std::io::Result<()> {
        if let Some(socket) = self.closed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(accept(socket.listen(128)?, Arc::clone(&self.shop)));
        }
        Ok(())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn orders(&self) -> &Orders {
        &self.shop.orders
    }
}

struct Shop {
    moods: Mutex<VecDeque<Mood>>,
    orders: Orders,
    since: Instant,
}

async fn accept(listener: TcpListener, shop: Arc<Shop>) {
    while let Ok((peer, _)) = listener.accept().await {
        let shop = Arc::clone(&shop);
        let service = service_fn(move |request| answer(Arc::clone(&shop), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(peer), service);
        // An answer that was lost on purpose ends the connection with an error, which is the point
        // of it.
        tokio::spawn(async { drop(connection.await) });
    }
}

/// Answers one request in the next mood. An error closes the connection without a word.
async fn answer(shop: Arc<Shop>, request: Request<Incoming>) -> Result<Response<String>> {
    let (head, body) = request.into_parts();
    let item = String::from_utf8(body.collect().await?.to_bytes().into())?;
    let key = head.headers.get("idempotency-key").map(|key| key.to_str()).transpose()?;
    shop.orders.note(head.method.as_str(), key, shop.since.elapsed())?;

    let mood = shop.moods.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    match mood.unwrap_or(Mood::Serve) {
        Mood::Serve => shop.serve(&head.method, &item, key),
        Mood::LoseAnswer => {
            shop.serve(&head.method, &item, key)?;
            bail!("the answer is lost on purpose")
        }
        Mood::Busy => Ok(status(StatusCode::SERVICE_UNAVAILABLE)),
        Mood::TooManySeconds(seconds) => too_many(SystemTime::now(), &seconds.to_string()),
        Mood::TooManyUntil(seconds) => {
            let now = SystemTime::now();
            too_many(now, &httpdate::fmt_http_date(now + Duration::from_secs(seconds)))
        }
        Mood::Hang => pending().await,
    }
}

impl Shop {
    fn serve(&self, method: &Method, item: &str, key: Option<&str>) -> Result<Response<String>> {
        if method != Method::POST {
            return Ok(Response::new("coffee, tea".to_owned()));
        }
        let created = Response::builder().status(StatusCode::CREATED);
        Ok(match self.orders.place(item, key)? {
            Placed::Now(order) => created.body(format!("order {order}"))?,
            Placed::Before(order) => created.header("idempotent-replayed", "true").body(format!("order {order}"))?,
        })
    }
}

fn status(status: StatusCode) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    response
}

fn too_many(now: SystemTime, retry_after: &str) -> Result<Response<String>> {
    let answer = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).header(DATE, httpdate::fmt_http_date(now));
    Ok(answer.header(RETRY_AFTER, retry_after).body(String::new())?)
}
