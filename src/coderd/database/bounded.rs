//! Decides how much a database server may send us in one session: whoever writes a URL chooses the server.
//! It counts what arrives and never changes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a session; what we ask for is answered with kilobytes.
const MOST: usize = 4 * 1024 * 1024;

/// A stream that ends in an error when it brought too much.
pub(super) struct Bounded<S> {
    stream: S,
    left: usize,
}

impl<S> Bounded<S> {
    /// Counts from now on.
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: MOST }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("the server sent more than a session may bring")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.left = self.left.saturating_sub(buffer.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn an_endless_server_is_cut_off() {
        let mut endless = Bounded::new(tokio::io::join(tokio::io::repeat(0), tokio::io::sink()));
        let mut taken = Vec::new();
        assert!(endless.read_to_end(&mut taken).await.is_err());
        assert!(taken.len() <= 2 * MOST, "{}", taken.len());
    }
}
