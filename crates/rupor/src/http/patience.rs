//! A connection that is given up when the other side does not take what it asked for.
//!
//! A reader who is merely slow earns time with every byte; one that takes a byte now and then to keep its seat does not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// What a reader has to take on average, once it has fallen behind.
const BYTES_PER_SECOND_MIN: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while there is something that the other side has not taken.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None }
    }

    fn stalled<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn taken(&mut self, n_bytes: usize) {
        if let Some(waiting) = &mut self.waiting {
            let earned = Duration::from_micros(n_bytes as u64 * 1_000_000 / BYTES_PER_SECOND_MIN);
            let until = (waiting.deadline() + earned).min(Instant::now() + self.patience);
            waiting.as_mut().reset(until);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            Poll::Ready(Ok(n_bytes)) => {
                self.taken(n_bytes);
                Poll::Ready(Ok(n_bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.stalled(cx),
        }
    }

    /// Reached only when everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(done) => {
                self.waiting = None;
                Poll::Ready(done)
            }
            Poll::Pending => self.stalled(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_takes_a_byte_now_and_then_loses_the_connection() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Patient::new(near, Duration::from_secs(20));
        let dripping = tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
        let started = Instant::now();
        let problem = near.write_all(&[0; 10_000]).await.unwrap_err();
        assert_eq!(problem.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
        drop(near);
        dripping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_is_merely_slow_gets_everything() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Patient::new(near, Duration::from_secs(20));
        let slow = tokio::spawn(async move {
            let (mut buffer, mut n_bytes) = ([0; 4_096], 0);
            while let Ok(n @ 1..) = far.read(&mut buffer).await {
                n_bytes += n;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            n_bytes
        });
        // Two thousand bytes a second, for much longer than anybody's patience.
        near.write_all(&[0; 200_000]).await.unwrap();
        near.flush().await.unwrap();
        drop(near);
        assert_eq!(slow.await.unwrap(), 200_000);
    }
}
