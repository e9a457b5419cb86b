//! Accepts connections, with or without TLS, and serves a router on them within limits of time and number.
//! It drains on request: what was asked is answered, nothing new is accepted.

use super::metrics::{Metrics, Named};
use super::patience::Patience;
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// A client that does not finish its handshake in this time is not one of ours.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may idle. The API server reuses idle ones for 90 s; whoever closes first must not be us, or its
/// next call fails. A head that has begun is given much less: see `patience`.
const IDLE_LIMIT: Duration = Duration::from_secs(130);
/// More connections wait to be accepted; of one address, more are closed at once.
const MAX_CONNECTIONS: usize = 1024;
const MAX_PER_PEER: usize = 256;
const MAX_STREAMS: u32 = 128;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(20);
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
    bound: SocketAddr,
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
        let failed = |source| BindError { name, flag, address, source };
        let socket = bind(address).await.map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        tracing::info!(listener = name, address = %bound, "listening");
        Ok(Self { name, socket, bound, tls: None, router, metrics })
    }

    /// The address it listens on, also when any port was asked for.
    pub fn address(&self) -> SocketAddr {
        self.bound
    }

    /// Speaks TLS from now on.
    #[must_use]
    pub fn with_tls(mut self, config: ServerConfig) -> Self {
        self.tls = Some(TlsAcceptor::from(Arc::new(config)));
        self
    }

    /// Serves until `stop`, then answers what is under way for at most `grace`.
    pub async fn serve(self, stop: CancellationToken, grace: Duration) {
        let Self { name, socket, tls, router, metrics, .. } = self;
        let connection = Connection { name, tls, router, metrics };
        let places = Places::default();
        let (graceful, tasks) = (GracefulShutdown::new(), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                biased;
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

async fn accept(socket: &TcpListener, places: &Places) -> Option<(TcpStream, Place)> {
    let any = places.any.clone().acquire_owned().await.ok()?;
    match socket.accept().await {
        Ok((stream, peer)) => places.take(any, peer.ip()).map(|place| (stream, place)),
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Who holds how many connections.
#[derive(Clone)]
struct Places {
    any: Arc<Semaphore>,
    by_peer: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self { any: Arc::new(Semaphore::new(MAX_CONNECTIONS)), by_peer: Arc::default() }
    }
}

impl Places {
    fn take(&self, any: OwnedSemaphorePermit, peer: IpAddr) -> Option<Place> {
        let mut by_peer = self.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        let held = by_peer.entry(peer).or_default();
        if *held >= MAX_PER_PEER {
            return None;
        }
        *held += 1;
        Some(Place { _any: any, peer, by_peer: self.by_peer.clone() })
    }
}

/// One connection's place, given back when dropped.
struct Place {
    _any: OwnedSemaphorePermit,
    peer: IpAddr,
    by_peer: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_peer = self.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = by_peer.get_mut(&self.peer) {
            *held -= 1;
            if *held == 0 {
                by_peer.remove(&self.peer);
            }
        }
    }
}

#[derive(Clone)]
struct Connection {
    name: &'static str,
    tls: Option<TlsAcceptor>,
    router: Router,
    metrics: Metrics,
}

impl Connection {
    async fn run(&self, stream: TcpStream, watcher: Watcher) {
        // Small answers must not wait for more to come; a socket that refuses this still works.
        let _ = stream.set_nodelay(true);
        let open = self.metrics.connections.get_or_create(&Named { name: self.name }).clone();
        open.inc();
        match &self.tls {
            None => self.http(stream, PeerCertificates::default(), false, watcher).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let session = stream.get_ref().1;
                    let peer = session.peer_certificates();
                    let peer = peer.map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect());
                    let http2 = session.alpn_protocol() == Some(b"h2");
                    self.http(stream, PeerCertificates(Arc::new(peer.unwrap_or_default())), http2, watcher)
                        .await;
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
        http2: bool,
        watcher: Watcher,
    ) {
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer.clone());
            router.clone().oneshot(request)
        });
        let ended = if http2 {
            watcher.watch(http2_builder().serve_connection(TokioIo::new(stream), service)).await
        } else {
            let stream = TokioIo::new(Patience::new(stream));
            watcher.watch(http1_builder().serve_connection(stream, service)).await
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
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    // A peer that vanished is noticed, as an idle limit does for HTTP/1.
    builder.keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_LIMIT);
    builder
}
