//! The double as a running server: started on a free loopback port, stopped on drop.
//! It never shares a runtime with the test, so a test that blocks or ends cannot starve or outlive it.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::clock::Clock;
use super::faults::Faults;
use super::ids::Uuid;
use super::limits::Limiter;
use super::pipeline::{self, CutConnection};
use super::record::Ledger;
use super::routes::provisioner_daemons::DaemonArrival;
use super::routes::provisioner_keys::DeletionWatch;
use super::state::{Build, ServerState};
use super::strictness::Violations;
use super::tls::{self, Certificates, OverTls};

/// Everything requests and tests share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<ServerState>,
    limiter: Mutex<Limiter>,
    deletion_watch: Mutex<DeletionWatch>,
    pub(super) clock: Clock,
    pub(super) ledger: Arc<Ledger>,
    pub(super) faults: Faults,
    pub(super) violations: Violations,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to object to the deletions of one call. Nothing is locked while it is asked: whoever objects may look
    /// at the double.
    pub(super) fn objections(&self) -> Vec<String> {
        let deletions = std::mem::take(&mut self.state().key_deletions);
        let watch = self.deletion_watch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        watch.objections(&deletions)
    }
}

/// How the double shall be; the default is a licensed enterprise build of the pinned release.
#[derive(Debug)]
pub struct CoderdBuilder {
    build: Build,
    licensed: bool,
    version: String,
    api_rate_limit: Option<u32>,
    daemon_arrival: DaemonArrival,
    clock: Clock,
}

impl CoderdBuilder {
    /// The open-source build: Premium routes are 404 "Route not found.".
    pub fn agpl(mut self) -> Self {
        self.build = Build::Agpl;
        self
    }

    /// The enterprise build without a license: Premium routes are 403 "... is a Premium feature".
    pub fn unlicensed(mut self) -> Self {
        self.licensed = false;
        self
    }

    /// The version it reports, with the leading `v`.
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// Calls a minute per user and path (512 unless set); none switches the limiter off.
    pub fn api_rate_limit(mut self, limit: Option<u32>) -> Self {
        self.api_rate_limit = limit;
        self
    }

    /// When a daemon that connects becomes visible.
    pub fn daemon_arrival(mut self, arrival: DaemonArrival) -> Self {
        self.daemon_arrival = arrival;
        self
    }

    /// Time stands still until the test advances it.
    pub fn frozen_clock(mut self) -> Self {
        self.clock = Clock::frozen();
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If loopback cannot be listened on.
    pub async fn start(self) -> Coderd {
        let ((listener, addr), (tls_listener, tls_addr)) = (listening(), listening());
        let mut state = ServerState::fresh(self.build, &self.version, self.clock.now());
        state.url = format!("http://{addr}");
        state.daemon_arrival = self.daemon_arrival;
        if !self.licensed {
            state.entitlements.lapse();
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            limiter: Mutex::new(Limiter::new(self.api_rate_limit)),
            deletion_watch: Mutex::default(),
            clock: self.clock,
            ledger: Ledger::new(),
            faults: Faults::default(),
            violations: Violations::default(),
        });
        let certificates = Arc::new(Certificates::default());
        let acceptor = tls::acceptor(Arc::clone(&certificates));
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().fallback(pipeline::receive).with_state(Arc::clone(&shared));
        let serving = move || run(listener, (tls_listener, acceptor), router, stopped);
        let thread = std::thread::Builder::new().name("coderd-double".to_owned()).spawn(serving);
        let thread = Some(thread.expect("a thread can be started"));
        Coderd { addr, tls_addr, certificates, shared, stop: Some(stop), thread }
    }
}

/// A running double of coderd. Dropping it stops it, and panics if it was sent anything outside the contract.
#[derive(Debug)]
pub struct Coderd {
    addr: SocketAddr,
    pub(super) tls_addr: SocketAddr,
    certificates: Arc<Certificates>,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Coderd {
    /// Starts a licensed enterprise build with its default organisation and no users.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts from the same default, to be changed.
    pub fn builder() -> CoderdBuilder {
        CoderdBuilder {
            build: Build::Enterprise,
            licensed: true,
            version: "v2.36.1".to_owned(),
            api_rate_limit: Some(512),
            daemon_arrival: DaemonArrival::Immediately,
            clock: Clock::running(),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Its clock, to be advanced.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Makes it another release, as after an upgrade.
    pub fn set_version(&self, version: &str) {
        version.clone_into(&mut self.state().version);
    }

    /// The identity of its database.
    pub fn deployment_id(&self) -> Uuid {
        self.state().deployment_id
    }

    /// Puts another database behind the same URL, as after a restore of the wrong one: another deployment id, one default
    /// organisation, no key, daemon, job or proxy. Users and their tokens are taken over, as if they had been made there too.
    pub fn replace_deployment(&self) {
        let now = self.clock().now();
        self.state().replace_deployment(now);
    }

    /// Changes the calls a minute per user and path, and forgets those counted.
    pub fn set_api_rate_limit(&self, limit: Option<u32>) {
        self.shared.limiter().set_limit(limit);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.shared.state()
    }

    pub(super) fn watch_deletions(&self, watch: DeletionWatch) {
        *self.shared.deletion_watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(super) fn violations(&self) -> &Violations {
        &self.shared.violations
    }
}

impl Drop for Coderd {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server thread has printed its own message.
            drop(thread.join());
        }
        if !std::thread::panicking() {
            self.assert_no_violations();
        }
    }
}

/// A listener on a free loopback port, for the runtime of the server.
fn listening() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.set_nonblocking(true).expect("a listener can be made non-blocking");
    let addr = listener.local_addr().expect("a bound listener has an address");
    (listener, addr)
}

/// Serves until told to stop; leaving drops the runtime and with it every connection and held call.
fn run(
    plain: std::net::TcpListener,
    (tls, acceptor): (std::net::TcpListener, TlsAcceptor),
    router: Router,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async move {
        let listener = |std| TcpListener::from_std(std).expect("the listener is non-blocking");
        tokio::select! {
            () = accept(listener(plain), router.clone()) => {}
            () = accept_tls(listener(tls), acceptor, router) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener, router: Router) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, router.clone(), false));
        }
    }
}

async fn accept_tls(listener: TcpListener, acceptor: TlsAcceptor, router: Router) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                // Whoever does not trust the certificate goes away.
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, router, true).await;
                }
            });
        }
    }
}

/// Serves one connection. An error of the service makes hyper close it without an answer, which is how a cut is
/// played.
async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, router: Router, over_tls: bool) {
    let answer = service_fn(move |mut request: http::Request<Incoming>| {
        if over_tls {
            request.extensions_mut().insert(OverTls);
        }
        let answering = TowerToHyperService::new(router.clone()).call(request);
        async move { uncut(answering.await) }
    });
    // Clients may go away at any time, and cuts end here too.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
}

fn uncut(response: Result<Response, Infallible>) -> io::Result<Response> {
    let Ok(response) = response;
    match response.extensions().get::<CutConnection>() {
        Some(CutConnection) => Err(io::Error::other("cut by an injected fault")),
        None => Ok(response),
    }
}
