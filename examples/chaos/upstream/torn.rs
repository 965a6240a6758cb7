//! A connection that can be told to break within the next bytes it sends, or to end in a reset.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// How a connection will end.
pub(super) struct Fate {
    /// What may still be sent.
    left: AtomicUsize,
    resets: AtomicBool,
}

impl Fate {
    pub(super) const fn new() -> Self {
        Self { left: AtomicUsize::new(usize::MAX), resets: AtomicBool::new(false) }
    }

    /// The connection breaks when it has sent so many bytes more.
    pub(super) fn tear_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// The connection's end is a reset (RST), whenever it comes.
    pub(super) fn reset(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }
}

pub(super) struct Torn {
    stream: TcpStream,
    fate: Arc<Fate>,
}

impl Torn {
    pub(super) const fn new(stream: TcpStream, fate: Arc<Fate>) -> Self {
        Self { stream, fate }
    }
}

impl Drop for Torn {
    fn drop(&mut self) {
        if self.fate.resets.load(Ordering::Relaxed) {
            // It fails on a connection that has ended already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Torn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Torn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let left = self.fate.left.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let Some(allowed) = bytes.get(..left.min(bytes.len())).filter(|allowed| !allowed.is_empty()) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let written = Pin::new(&mut self.stream).poll_write(cx, allowed);
        if let Poll::Ready(Ok(written)) = written {
            self.fate.left.fetch_sub(written, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
