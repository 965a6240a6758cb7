//! One connection of a `FaultServer`: takes a step of the script for each request and plays its
//! acts.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use super::{
    fault::{Act, Fault},
    ledger::Shared,
    recorded::{Extent, Recorded},
    request_reader::{Head, Remaining},
    script::Script,
};

/// The longest head that is read; a longer one ends the connection.
const HEAD_LIMIT: usize = 1 << 20;

/// Room for one read: without it, a body of a megabyte would take thousands of them.
const READ: usize = 1 << 14;

/// A byte stream over TCP that can be reset.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin {
    fn tcp(&self) -> &TcpStream;

    /// The socket on which a look ahead shows request bytes; `None` where other bytes may come
    /// first, as a TLS alert does.
    fn peekable(&self) -> Option<&TcpStream>;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }

    fn peekable(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

/// Makes the socket's end a reset (RST) instead of an orderly close.
#[allow(deprecated, reason = "tokio's successor, `set_zero_linger`, is newer than the oldest tokio supported; zero never blocks")]
pub(super) fn reset_when_dropped(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_linger(Some(Duration::ZERO))
}

/// Where the faults come from.
pub(super) enum Faults {
    /// From a list.
    Steps(Box<Script<Fault>>),
    /// From a function of the whole request and its number.
    Handler(Handler),
}

type Handler = Box<dyn Fn(&Recorded, usize) -> Fault + Send + Sync>;

impl Faults {
    pub(super) fn steps(steps: impl IntoIterator<Item = Fault, IntoIter: Send + 'static>) -> Arc<Self> {
        Arc::new(Self::Steps(Box::new(Script::new(steps, Fault::status(200)))))
    }

    /// A script for each of these paths; what is asked for beside them is not found.
    pub(super) fn by_path(scripts: impl IntoIterator<Item = (String, Vec<Fault>)>) -> Arc<Self> {
        let scripts = scripts.into_iter().map(|(path, steps)| (path, Script::new(steps, Fault::status(200))));
        let scripts: HashMap<String, Script<Fault>> = scripts.collect();
        Self::chosen_by(move |request, _| scripts.get(request.path()).map_or_else(|| Fault::status(404), Script::take))
    }

    pub(super) fn chosen_by(handler: impl Fn(&Recorded, usize) -> Fault + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self::Handler(Box::new(handler)))
    }
}

/// Whether the connection waits for another request.
#[derive(PartialEq, Eq)]
enum Then {
    Kept,
    Ended,
}

pub(super) struct Connection<S> {
    socket: S,
    number: usize,
    shared: Arc<Shared>,
    faults: Arc<Faults>,
    unread: BytesMut,
    /// The request being read: its place in the ledger and what is still to come.
    current: Option<(usize, Remaining)>,
}

impl<S: Socket> Connection<S> {
    pub(super) fn new(socket: S, number: usize, shared: Arc<Shared>, faults: Arc<Faults>) -> Self {
        Self { socket, number, shared, faults, unread: BytesMut::new(), current: None }
    }

    /// Serves until either side ends it. An I/O error is the client leaving, which is no news here.
    pub(super) async fn serve(mut self) -> io::Result<()> {
        if let Some(fault) = self.fault_on_accept() {
            if self.play(&fault).await? == Then::Ended {
                return Ok(());
            }
        }
        loop {
            self.first_byte().await?;
            let fault = self.next_fault().await?;
            if self.play(&fault).await? == Then::Ended {
                return Ok(());
            }
        }
    }

    /// The next fault, if it acts before the client speaks.
    fn fault_on_accept(&self) -> Option<Fault> {
        match &*self.faults {
            Faults::Steps(script) => script.take_if(Fault::acts_on_accept),
            Faults::Handler(_) => None,
        }
    }

    /// The fault for the request that has begun to arrive. A handler chooses it by the whole
    /// request.
    async fn next_fault(&mut self) -> io::Result<Fault> {
        let faults = Arc::clone(&self.faults);
        match &*faults {
            Faults::Steps(script) => Ok(script.take()),
            Faults::Handler(choose) => {
                let place = self.read_body(usize::MAX).await?;
                let request = self.shared.ledger.look_at(place, Recorded::clone).ok_or(io::ErrorKind::NotFound)?;
                Ok(choose(&request, place + 1))
            }
        }
    }

    async fn play(&mut self, fault: &Fault) -> io::Result<Then> {
        for act in fault.before() {
            if self.act(act).await? == Then::Ended {
                return Ok(Then::Ended);
            }
        }
        let method = self.current.and_then(|(place, _)| self.shared.ledger.look_at(place, |request| request.method.clone()));
        for act in fault.answer_to(method.as_ref()) {
            if self.act(&act).await? == Then::Ended {
                return Ok(Then::Ended);
            }
        }
        self.read_body(usize::MAX).await?;
        self.current = None;
        Ok(Then::Kept)
    }

    async fn act(&mut self, act: &Act) -> io::Result<Then> {
        match act {
            Act::AwaitFirstByte => self.first_byte().await?,
            Act::ReadHead => drop(self.read_body(0).await?),
            Act::ReadBody(bytes) => drop(self.read_body(*bytes).await?),
            Act::ReadRequest => drop(self.read_body(usize::MAX).await?),
            Act::Send(bytes) => self.send(bytes).await?,
            Act::Trickle(bytes, pause) => loop {
                tokio::time::sleep(*pause).await;
                self.send(bytes).await?;
            },
            Act::Pause(delay) => tokio::time::sleep(*delay).await,
            Act::Close => {
                self.socket.shutdown().await?;
                self.discard().await?;
                return Ok(Then::Ended);
            }
            Act::Reset => {
                reset_when_dropped(self.socket.tcp())?;
                return Ok(Then::Ended);
            }
            Act::Hang => {
                self.discard().await?;
                return Ok(Then::Ended);
            }
            Act::Freeze => std::future::pending().await,
        }
        Ok(Then::Kept)
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await?;
        self.socket.flush().await
    }

    /// Waits for the first byte of a request, if possible without taking it.
    async fn first_byte(&mut self) -> io::Result<()> {
        if !self.unread.is_empty() {
            return Ok(());
        }
        match self.socket.peekable() {
            // Not `readable()`, which may return although nothing has come: that would spend a step
            // on a connection that stays idle.
            Some(tcp) if tcp.peek(&mut [0]).await? == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => Ok(()),
            None => self.fill().await,
        }
    }

    /// Reads the head if it is still to come, and at least so many bytes of the body, or all of it.
    /// Returns the request's place in the ledger.
    async fn read_body(&mut self, least: usize) -> io::Result<usize> {
        let (place, mut remaining) = match self.current {
            Some(current) => current,
            None => self.read_head().await?,
        };
        let mut read = self.shared.ledger.look_at(place, |request| request.body.len()).unwrap_or_default();
        loop {
            let mut body = Vec::new();
            let (taken, next) = remaining.take(&self.unread, &mut body);
            let raw = self.unread.split_to(taken);
            let extent = if next == Remaining::Nothing { Extent::Complete } else { Extent::Partial };
            self.shared.ledger.extend(place, &raw, &body, extent);
            read += body.len();
            remaining = next;
            self.current = Some((place, remaining));
            if remaining == Remaining::Nothing || read >= least {
                return Ok(place);
            }
            self.fill().await?;
        }
    }

    async fn read_head(&mut self) -> io::Result<(usize, Remaining)> {
        let length = loop {
            match Head::length(&self.unread) {
                Some(length) => break length,
                None if self.unread.len() > HEAD_LIMIT => return Err(io::ErrorKind::InvalidData.into()),
                None => self.fill().await?,
            }
        };
        let raw = self.unread.split_to(length);
        let head = Head::parse(&raw, &self.shared.base).ok_or(io::ErrorKind::InvalidData)?;
        let remaining = Remaining::announced_by(&head.headers);
        let place = self.shared.ledger.enter(Recorded {
            method: head.method,
            url: head.url,
            headers: head.headers,
            body: Vec::new(),
            raw: raw.to_vec(),
            extent: Extent::Partial,
            arrived: Instant::now(),
            connection: self.number,
        });
        self.current = Some((place, remaining));
        Ok((place, remaining))
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.unread.reserve(READ);
        match self.socket.read_buf(&mut self.unread).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.shared.ledger.write(|seen| seen.bytes += read as u64);
                Ok(())
            }
        }
    }

    /// Reads and forgets until the client leaves.
    async fn discard(&mut self) -> io::Result<()> {
        self.unread.clear();
        loop {
            self.fill().await?;
            self.unread.clear();
        }
    }
}
