//! Accepts connections, with or without TLS, and serves a router on them within limits of time and number.
//! It drains on request: what was asked is answered, nothing new is accepted.

use super::connections::{Connections, Place};
use super::header_timeout::HeaderTimeout;
use super::metrics::{Metrics, Named};
use super::peer::Peer;
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// A client that does not finish its handshake in this time is not one of ours.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may idle. The API server reuses idle ones for 90 s; whoever closes first must not be us, or its
/// next call fails. A head that has begun is given much less: see `header_timeout`.
const IDLE_LIMIT: Duration = Duration::from_secs(130);
/// What is read of a connection at once, and so the largest head: a bearer token is a few thousand bytes.
const BUFFER: usize = 16 * 1024;
/// Headers of a request; an API server sends about ten.
const HEADERS: usize = 64;
/// Pause after a failed accept: usually the process ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {name}: {source}; choose another address with --{flag}")]
pub(crate) struct BindError {
    name: &'static str,
    flag: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// A bound socket with what is served on it.
pub(crate) struct Listener {
    name: &'static str,
    socket: TcpListener,
    bound: SocketAddr,
    tls: Option<TlsAcceptor>,
    life: Option<Duration>,
    router: Router,
    connections: Connections,
    metrics: Metrics,
}

impl Listener {
    /// Binds; `flag` is the one that chooses the address. Without TLS unless [`Listener::with_tls`] follows.
    pub(crate) async fn bind(
        name: &'static str,
        flag: &'static str,
        address: SocketAddr,
        router: Router,
        connections: Connections,
        metrics: Metrics,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError { name, flag, address, source };
        let socket = bind(address).await.map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        tracing::info!(listener = name, address = %bound, "listening");
        Ok(Self { name, socket, bound, tls: None, life: None, router, connections, metrics })
    }

    /// The address it listens on, also when any port was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.bound
    }

    /// Speaks TLS from now on.
    #[must_use]
    pub(crate) fn with_tls(mut self, config: ServerConfig) -> Self {
        self.tls = Some(TlsAcceptor::from(Arc::new(config)));
        self
    }

    /// From now on a connection ends with its first answer, and after this time in any case.
    #[must_use]
    pub(crate) fn with_life(mut self, life: Duration) -> Self {
        self.life = Some(life);
        self
    }

    /// Serves until `stop`, then answers what is under way for at most `grace`.
    pub(crate) async fn serve(self, stop: CancellationToken, grace: Duration) {
        let Self { name, socket, tls, life, router, connections, metrics, .. } = self;
        let refused = metrics.refused_connections.get_or_create(&Named { name }).clone();
        let connection = Connection { name, tls, life, router, metrics };
        let (graceful, tasks) = (GracefulShutdown::new(), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&socket) => accepted,
            };
            let Some((stream, peer)) = accepted else { continue };
            let Some(place) = connections.take(peer) else {
                // Dropping the stream closes it. Nobody waits: behind one that waits, others would.
                refused.inc();
                continue;
            };
            let (connection, watcher) = (connection.clone(), graceful.watcher());
            tasks.spawn(async move { connection.run(stream, peer, place, watcher).await });
        }
        drop(socket);
        tasks.close();
        let drained = async {
            graceful.shutdown().await;
            tasks.wait().await;
        };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(listener = name, "connections cut after {grace:?} of draining");
        }
    }
}

/// An address of all IPv6 and IPv4 interfaces falls back to IPv4 alone where there is no IPv6.
async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error)
            if address.is_ipv6() && address.ip().is_unspecified() && error.kind() != ErrorKind::AddrInUse =>
        {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()))).await
        }
        bound => bound,
    }
}

async fn accept(socket: &TcpListener) -> Option<(TcpStream, Peer)> {
    match socket.accept().await {
        Ok((stream, address)) => Some((stream, address.ip().into())),
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

#[derive(Clone)]
struct Connection {
    name: &'static str,
    tls: Option<TlsAcceptor>,
    life: Option<Duration>,
    router: Router,
    metrics: Metrics,
}

impl Connection {
    /// Serves one connection; its place is given back at the end.
    async fn run(&self, stream: TcpStream, peer: Peer, _place: Place, watcher: Watcher) {
        // Small answers must not wait for more to come; a socket that refuses this still works.
        let _ = stream.set_nodelay(true);
        let open = self.metrics.connections.get_or_create(&Named { name: self.name }).clone();
        open.inc();
        match &self.tls {
            None => self.http(stream, peer, watcher).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.http(stream, peer, watcher).await,
                Ok(Err(_)) | Err(_) => {
                    self.metrics.failed_handshakes.get_or_create(&Named { name: self.name }).inc();
                }
            },
        }
        open.dec();
    }

    async fn http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        watcher: Watcher,
    ) {
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
        let stream = TokioIo::new(HeaderTimeout::new(stream));
        let mut builder = http1_builder();
        builder.keep_alive(self.life.is_none());
        let ended = watcher.watch(builder.serve_connection(stream, service));
        let ended = match self.life {
            None => ended.await,
            // Dropping it closes the connection.
            Some(life) => tokio::time::timeout(life, ended).await.unwrap_or(Ok(())),
        };
        if let Err(error) = ended {
            tracing::debug!(listener = self.name, %error, "connection ended early");
        }
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Without a timer the limit would silently not count.
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE_LIMIT);
    builder.max_buf_size(BUFFER).max_headers(HEADERS);
    builder
}
