//! Accepts connections, with or without TLS, and serves a router on them within limits of time and number.
//! It drains on request: what was asked is answered, nothing new is accepted.

use super::metrics::{Metrics, Named};
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// A client that does not finish its handshake in this time is not one of ours.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may wait for the next complete request head. The API server reuses idle connections for 90 s;
/// whoever closes first must not be us, or its next call fails.
const HEAD_LIMIT: Duration = Duration::from_secs(130);
/// More connections wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
const MAX_STREAMS: u32 = 256;
/// Pause after a failed accept: usually the process ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The certificates a client presented in the handshake, unverified; empty when it had none.
#[derive(Debug, Clone, Default)]
pub struct PeerCertificates(pub Arc<Vec<CertificateDer<'static>>>);

/// A socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {name}: {source}; choose another address with --{flag}")]
pub struct BindError {
    name: &'static str,
    flag: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// A bound socket with what is served on it.
pub struct Listener {
    name: &'static str,
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    metrics: Metrics,
}

impl Listener {
    /// Binds; `flag` is the one that chooses the address. Without TLS unless [`Listener::with_tls`] follows.
    pub async fn bind(
        name: &'static str,
        flag: &'static str,
        address: SocketAddr,
        router: Router,
        metrics: Metrics,
    ) -> Result<Self, BindError> {
        let socket =
            TcpListener::bind(address).await.map_err(|source| BindError { name, flag, address, source })?;
        tracing::info!(listener = name, %address, "listening");
        Ok(Self { name, socket, tls: None, router, metrics })
    }

    /// Speaks TLS from now on.
    #[must_use]
    pub fn with_tls(mut self, config: ServerConfig) -> Self {
        self.tls = Some(TlsAcceptor::from(Arc::new(config)));
        self
    }

    /// Serves until `stop`, then answers what is under way for at most `grace`.
    pub async fn serve(self, stop: CancellationToken, grace: Duration) {
        let Self { name, socket, tls, router, metrics } = self;
        let connection = Connection { name, tls, router, metrics, builder: builder() };
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (graceful, tasks) = (GracefulShutdown::new(), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&socket, &places) => accepted,
            };
            let Some((stream, place)) = accepted else { continue };
            let (connection, watcher) = (connection.clone(), graceful.watcher());
            tasks.spawn(async move {
                connection.run(stream, watcher).await;
                drop(place);
            });
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

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(socket: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, Place)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match socket.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Without a timer the header timeout would silently not count.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    builder
}

#[derive(Clone)]
struct Connection {
    name: &'static str,
    tls: Option<TlsAcceptor>,
    router: Router,
    metrics: Metrics,
    builder: Builder<TokioExecutor>,
}

impl Connection {
    async fn run(&self, stream: TcpStream, watcher: hyper_util::server::graceful::Watcher) {
        // Small answers must not wait for more to come; a socket that refuses this still works.
        let _ = stream.set_nodelay(true);
        let open = self.metrics.connections.get_or_create(&Named { name: self.name }).clone();
        open.inc();
        match &self.tls {
            None => self.http(stream, PeerCertificates::default(), watcher).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let peer = stream.get_ref().1.peer_certificates();
                    let peer = peer.map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect());
                    self.http(stream, PeerCertificates(Arc::new(peer.unwrap_or_default())), watcher).await;
                }
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
        peer: PeerCertificates,
        watcher: hyper_util::server::graceful::Watcher,
    ) {
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer.clone());
            router.clone().oneshot(request)
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(listener = self.name, %error, "connection ended early");
        }
    }
}
