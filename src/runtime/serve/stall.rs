//! A stream that fails when its peer stops reading.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Clock;

/// Fails with `TimedOut` when a write makes no progress for `timeout`.
///
/// Without this limit, a peer that requests much and reads nothing, or disappears during a
/// response, would keep its connection open for as long as it likes.
pub(super) struct NoStall<S> {
    stream: S,
    clock: Clock,
    timeout: Duration,
    /// Runs while a write waits. It is created only then, because most writes never wait.
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> NoStall<S> {
    pub(super) fn new(stream: S, clock: Clock, timeout: Duration) -> Self {
        Self { stream, clock, timeout, deadline: None }
    }

    /// Passes on a write's result, or fails if the write has waited for too long.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.deadline = None;
            return progress;
        }
        let deadline = self.deadline.get_or_insert_with(|| {
            let (clock, timeout) = (self.clock.clone(), self.timeout);
            Box::pin(async move { clock.sleep(timeout).await })
        });
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NoStall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NoStall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, progress)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::domain::Timestamp;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_disconnected_and_a_slow_one_is_not() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let timeout = Duration::from_secs(30);
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = NoStall::new(near, clock.clone(), timeout);

        let mut write = Box::pin(near.write_all(b"12345678"));
        assert!(futures_util::poll!(&mut write).is_pending());
        clock.advance(Duration::from_secs(29));
        assert!(futures_util::poll!(&mut write).is_pending());
        let mut taken = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut taken).await.expect("written");
        clock.advance(Duration::from_secs(29));
        write.await.expect("the peer took some");

        let mut write = Box::pin(near.write_all(b"9"));
        assert!(futures_util::poll!(&mut write).is_pending());
        clock.advance(timeout);
        let error = write.await.expect_err("the peer took nothing");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
