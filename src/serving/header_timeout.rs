//! Cuts off clients that say nothing at first, begin a request and do not finish its head, or do not take their answer:
//! after an answer a connection may idle, a sentence may not.
//! It watches the bytes of HTTP/1 pass and never changes them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long the head of a request may take from its first byte on, or the first one from the start.
pub(super) const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// How long a client may take no byte of what we send. An answer that nobody takes is memory that nobody frees.
pub(super) const TAKE_LIMIT: Duration = Duration::from_secs(5);

const END_OF_HEAD: [u8; 4] = *b"\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100";

/// Where in a conversation the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of the next request has arrived; this may last.
    Idle,
    /// The head is arriving; these are its last bytes.
    Head { tail: [u8; 4] },
    /// The head is complete; the next write is the answer.
    Request,
}

/// A stream whose request heads must arrive in time.
pub(super) struct HeaderTimeout<S> {
    stream: S,
    stage: Stage,
    deadline: Pin<Box<Sleep>>,
    /// When the client must have taken something; none while nothing waits to be taken.
    taking: Option<Pin<Box<Sleep>>>,
}

impl<S> HeaderTimeout<S> {
    /// Watches a stream from its first byte on.
    pub(super) fn new(stream: S) -> Self {
        // Whoever connects has something to say: the first head is due from the start.
        let stage = Stage::Head { tail: [0; 4] };
        Self { stream, stage, deadline: Box::pin(tokio::time::sleep(HEAD_LIMIT)), taking: None }
    }

    /// What became of bytes that were offered to the client.
    fn offered<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.taking = None;
            return result;
        }
        let deadline = self.taking.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKE_LIMIT)));
        deadline
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take what was sent")))
    }

    fn arrived(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let next = after_bytes(self.stage, bytes);
        if self.stage == Stage::Idle && matches!(next, Stage::Head { .. }) {
            self.deadline.as_mut().reset(Instant::now() + HEAD_LIMIT);
        }
        self.stage = next;
    }
}

/// The stage after more bytes of the client.
fn after_bytes(stage: Stage, bytes: &[u8]) -> Stage {
    let mut tail = match stage {
        Stage::Idle => [0; 4],
        Stage::Head { tail } => tail,
        Stage::Request => return stage,
    };
    for byte in bytes {
        tail = [tail[1], tail[2], tail[3], *byte];
        if tail == END_OF_HEAD {
            return Stage::Request;
        }
    }
    Stage::Head { tail }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeaderTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(result) => {
                this.arrived(&buffer.filled()[before..]);
                Poll::Ready(result)
            }
            Poll::Pending if matches!(this.stage, Stage::Head { .. }) => {
                this.deadline.as_mut().poll(context).map(|()| {
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the head of a request did not arrive in time",
                    ))
                })
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeaderTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.stage == Stage::Request && !bytes.starts_with(CONTINUE) {
            self.stage = Stage::Idle;
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.offered(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.offered(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.offered(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn read(stream: &mut HeaderTimeout<tokio::io::DuplexStream>) -> io::Result<usize> {
        stream.read(&mut [0; 256]).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_cut() {
        let (_client, server) = tokio::io::duplex(1024);
        let began = Instant::now();
        assert_eq!(read(&mut HeaderTimeout::new(server)).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), HEAD_LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_head_is_cut() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = HeaderTimeout::new(server);
        client.write_all(b"POST / HTTP/1.1\r\nHost").await.unwrap();
        read(&mut server).await.unwrap();
        assert_eq!(read(&mut server).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn one_byte_every_second_is_too_slow_all_the_same() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = HeaderTimeout::new(server);
        let dripping = tokio::spawn(async move {
            loop {
                client.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            #[expect(unreachable_code, reason = "gives the loop its type")]
            io::Result::Ok(())
        });
        let mut read_bytes = 0;
        while read(&mut server).await.is_ok() {
            read_bytes += 1;
            assert!(read_bytes < 10, "the limit counts from the first byte");
        }
        dripping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_and_the_pause_after_an_answer_may_take_their_time() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut server = HeaderTimeout::new(server);
        client.write_all(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        read(&mut server).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_secs(60), read(&mut server)).await;
        assert!(waiting.is_err(), "a slow body is for the handler's own limit");
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let idle = tokio::time::timeout(Duration::from_secs(60), read(&mut server)).await;
        assert!(idle.is_err(), "kept alive");
        client.write_all(b"GET /next").await.unwrap();
        read(&mut server).await.unwrap();
        assert!(read(&mut server).await.is_err(), "the next head is watched again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_is_cut() {
        let (_client, server) = tokio::io::duplex(16);
        let began = Instant::now();
        let error = HeaderTimeout::new(server).write_all(&[b'x'; 64]).await.unwrap_err();
        assert_eq!(
            (error.kind(), began.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, TAKE_LIMIT.as_secs())
        );
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = HeaderTimeout::new(server);
        let taking = tokio::spawn(async move {
            let mut taken = [0; 64];
            for byte in taken.chunks_mut(1) {
                client.read_exact(byte).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            io::Result::Ok(client)
        });
        server.write_all(&[b'x'; 64]).await.expect("a slow one is not cut");
        taking.await.unwrap().unwrap();
    }

    #[test]
    fn the_end_of_a_head_is_seen_across_reads() {
        let half = after_bytes(Stage::Idle, b"GET / HTTP/1.1\r\n\r");
        assert!(matches!(half, Stage::Head { .. }));
        assert_eq!(after_bytes(half, b"\nbody"), Stage::Request);
    }
}
