//! The socket under the HTTP server, and the ways in which it can misbehave.
//! Hyper reads and writes through a `Wire`; whoever handles a request holds its `WireControl`
//! and can make the very next bytes go wrong. This module knows nothing of platforms.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// What the handler of a request may do to the connection it came on.
#[derive(Debug, Default)]
pub(crate) struct WireControl {
    /// Set whenever `mode` is not plain, so that the common path takes no lock.
    bent: AtomicBool,
    mode: Mutex<Mode>,
    reset: AtomicBool,
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Plain,
    /// These bytes go out in place of whatever the server writes.
    Replace(Bytes),
    /// One byte at a time, with a pause after each.
    Drip(Duration),
}

impl WireControl {
    /// Makes the end of this connection a TCP reset instead of an orderly close.
    pub(crate) fn reset_on_close(&self) {
        self.reset.store(true, Ordering::SeqCst);
    }

    /// Sends `bytes` instead of the answer; what hyper writes from now on is thrown away.
    pub(crate) fn replace_answer(&self, bytes: Bytes) {
        self.bend(Mode::Replace(bytes));
    }

    /// Sends everything from now on byte by byte.
    pub(crate) fn drip(&self, interval: Duration) {
        self.bend(Mode::Drip(interval));
    }

    fn bend(&self, mode: Mode) {
        *self.mode() = mode;
        self.bent.store(true, Ordering::SeqCst);
    }

    fn mode(&self) -> MutexGuard<'_, Mode> {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A TCP connection whose writing side obeys a `WireControl`.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: TcpStream,
    control: Arc<WireControl>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, control: Arc<WireControl>) -> Wire {
        Wire { socket, control, pause: None }
    }

    fn poll_replaced(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<io::Result<usize>> {
        loop {
            let Mode::Replace(rest) = &mut *self.control.mode() else { return Poll::Ready(Ok(length)) };
            if rest.is_empty() {
                return Poll::Ready(Ok(length));
            }
            let sent = ready!(Pin::new(&mut self.socket).poll_write(cx, rest))?;
            *rest = rest.slice(sent..);
        }
    }

    fn poll_dripped(&mut self, cx: &mut Context<'_>, buf: &[u8], gap: Duration) -> Poll<io::Result<usize>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
        }
        self.pause = Some(Box::pin(sleep(gap)));
        Pin::new(&mut self.socket).poll_write(cx, &buf[..buf.len().min(1)])
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.control.reset.load(Ordering::SeqCst) {
            // A socket that cannot be told so closes in order; the peer still sees the end.
            drop(self.socket.set_zero_linger());
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if !self.control.bent.load(Ordering::Acquire) {
            return Pin::new(&mut self.socket).poll_write(cx, buf);
        }
        let drip = match &*self.control.mode() {
            Mode::Drip(gap) => Some(*gap),
            Mode::Plain | Mode::Replace(_) => None,
        };
        match drip {
            Some(gap) => self.poll_dripped(cx, buf, gap),
            None => self.poll_replaced(cx, buf.len()),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.control.bent.load(Ordering::Acquire) {
            return Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        }
        let first = bufs.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        self.poll_write(cx, first)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
