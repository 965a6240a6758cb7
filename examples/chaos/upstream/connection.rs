//! One connection of the server: let in or not, served, and ended as its requests ask or as the
//! weather has it.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    time::sleep,
};

use super::{
    Server,
    fault::Shared,
    life::Life,
    tls::Acceptor,
    torn::{Fate, Torn},
};
use crate::chance::{Chance, Subject};

/// What is spoken behind a listener.
#[derive(Clone)]
pub(super) enum Door {
    H1,
    H2,
    Tls(Acceptor),
}

/// What the requests of a connection can do to it.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) fate: Arc<Fate>,
    orders: mpsc::UnboundedSender<Order>,
    pub(super) is_h2: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    GoAway,
    End,
}

impl Line {
    pub(super) const fn shared(&self) -> Shared {
        if self.is_h2 { Shared::WithOthers } else { Shared::Alone }
    }

    pub(super) fn order(&self, order: Order) {
        // A connection that has ended needs no orders.
        let _ = self.orders.send(order);
    }
}

/// What happens to a connection whatever is asked over it.
#[derive(Debug, Clone, Copy)]
enum Weather {
    Fair,
    /// Closed before a byte is read.
    Closed,
    Reset,
    /// Nothing is ever read, no handshake answered.
    Mute,
}

/// What a connection bears before its server ends it.
struct Patience {
    /// HTTP/1: how long it may be idle.
    idle: Duration,
    /// HTTP/2: when it says GOAWAY.
    age: Duration,
    streams: u32,
}

impl Server {
    pub(super) async fn serve(self, stream: TcpStream, door: Door, life: Life, number: u64) {
        let _open = self.counts.opened();
        let mut chance = Chance::of(self.seed, Subject::Connection(number));
        let weather = chance.weighted(&[(95, Weather::Fair), (2, Weather::Closed), (2, Weather::Reset), (1, Weather::Mute)]);
        let patience = Patience {
            idle: chance.millis(20, 400),
            age: if chance.happens(50) { chance.millis(5, 60) } else { chance.millis(60, 2_000) },
            streams: chance.weighted(&[(10, 200), (1, 20), (1, 4)]),
        };
        let fate = Arc::new(Fate::new());
        let stream = Torn::new(stream, Arc::clone(&fate));
        match weather {
            Weather::Closed => return,
            Weather::Reset => return fate.reset(),
            Weather::Mute => return sleep(Duration::from_secs(1)).await,
            Weather::Fair => {}
        }
        match door {
            Door::H1 => self.speak_h1(stream, fate, patience, life).await,
            Door::H2 => self.speak_h2(stream, fate, patience, life).await,
            Door::Tls(acceptor) => {
                let Some((stream, is_h2)) = acceptor.accept(stream).await else { return };
                if is_h2 {
                    self.speak_h2(stream, fate, patience, life).await;
                } else {
                    self.speak_h1(stream, fate, patience, life).await;
                }
            }
        }
    }

    async fn speak_h1<I>(self, io: I, fate: Arc<Fate>, patience: Patience, life: Life)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (orders, ordered) = mpsc::unbounded_channel();
        let line = Line { fate, orders, is_h2: false };
        let service = service_fn(|request| self.clone().answer(request, line.clone(), life.clone()));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience.idle);
        let connection = builder.serve_connection(TokioIo::new(io), service);
        drive(connection, http1::Connection::graceful_shutdown, ordered).await;
    }

    async fn speak_h2<I>(self, io: I, fate: Arc<Fate>, patience: Patience, life: Life)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (orders, ordered) = mpsc::unbounded_channel();
        let line = Line { fate, orders, is_h2: true };
        let old = line.clone();
        life.spawn(async move {
            sleep(patience.age).await;
            old.order(Order::GoAway);
        });
        let streams = life.clone();
        let service = service_fn(move |request| self.clone().answer(request, line.clone(), life.clone()));
        let mut builder = http2::Builder::new(streams);
        builder.max_concurrent_streams(patience.streams);
        let connection = builder.serve_connection(TokioIo::new(io), service);
        drive(connection, http2::Connection::graceful_shutdown, ordered).await;
    }
}

/// Runs a connection to its end, or to the end it is ordered.
async fn drive<C: Future>(connection: C, go_away: impl Fn(Pin<&mut C>), mut ordered: mpsc::UnboundedReceiver<Order>) {
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            // However it ended: the other side knows more about it.
            _ = connection.as_mut() => return,
            order = ordered.recv() => match order {
                Some(Order::GoAway) => go_away(connection.as_mut()),
                Some(Order::End) | None => return,
            },
        }
    }
}
