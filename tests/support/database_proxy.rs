//! A proxy in front of PostgreSQL that can be closed, deny TLS, cut a session at a statement of the test's choice, and end
//! its client at a commit. It never changes what it forwards; who waits for commits hears of each before the client does.

use crate::fault_proxy::{CrashTiming, Delivered, Journal};
use crate::ports;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The eight bytes by which a client asks for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// What goes wrong in sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseFault {
    /// TLS is not offered.
    NoTls,
    /// The session is reset when the client sends this text; the server never sees it.
    ResetAt(&'static str),
    /// The server gets this text and acts on it, but its answer is lost with the session.
    AnswerLostAt(&'static str),
}

/// Called after each commit, before the client hears of it.
pub type OnCommit = Arc<dyn Fn() + Send + Sync>;

struct Shared {
    upstream: SocketAddr,
    fault: Mutex<Option<DatabaseFault>>,
    sessions: Mutex<Vec<Instant>>,
    on_commit: OnCommit,
    journal: Arc<Journal>,
}

/// A running proxy. Dropping it cuts every session.
pub struct DatabaseProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    open: watch::Sender<bool>,
    _server: AbortOnDropHandle<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DatabaseProxy {
    /// Starts a proxy to a server on loopback. A closed one has its port but refuses connections until it is opened.
    pub fn start(upstream: u16, closed: bool, on_commit: OnCommit) -> Self {
        Self::recording(upstream, closed, on_commit, Arc::default())
    }

    /// The same; commits are counted in that journal. All that the operator writes is within transactions.
    pub fn recording(upstream: u16, closed: bool, on_commit: OnCommit, journal: Arc<Journal>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(ports::loopback(0)).expect("a free loopback port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            upstream: ports::loopback(upstream),
            fault: Mutex::default(),
            sessions: Mutex::default(),
            on_commit,
            journal,
        });
        let (open, mut opened) = watch::channel(!closed);
        let serving = shared.clone();
        let server = tokio::spawn(async move {
            if opened.wait_for(|open| *open).await.is_ok() {
                serve(socket.listen(64).expect("a bound socket can listen"), serving).await;
            }
        });
        Self { address, shared, open, _server: AbortOnDropHandle::new(server) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on sessions suffer this.
    pub fn inject(&self, fault: DatabaseFault) {
        *locked(&self.shared.fault) = Some(fault);
    }

    /// Sessions suffer nothing, and a closed proxy opens.
    pub fn heal(&self) {
        *locked(&self.shared.fault) = None;
        self.open.send_replace(true);
    }

    /// When each session began.
    pub fn sessions(&self) -> Vec<Instant> {
        locked(&self.shared.sessions).clone()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut sessions = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        locked(&shared.sessions).push(Instant::now());
        let shared = shared.clone();
        // A session that ends early is the client's business or our own cut.
        sessions.spawn(async move { drop(session(client, &shared).await) });
    }
}

/// How a session ended.
enum End {
    Closed,
    Cut,
}

/// The text of a commit: of the statement, and of the server's word that it is done.
const COMMIT: &[u8] = b"COMMIT\0";

async fn session(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(shared.upstream).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whoever answers the question for TLS holds the client's half for that moment.
    let to_client = tokio::sync::Mutex::new(to_client);
    let lost = watch::Sender::new(false);
    let timing = Mutex::new(None);
    let end = tokio::select! {
        end = ask(from_client, to_server, &to_client, &lost, &timing, shared) => end?,
        end = answer(from_server, &to_client, &lost, &timing, shared) => end?,
    };
    if matches!(end, End::Cut) {
        // Closed without a word, and without the farewell that dropping this half would send: that is a reset.
        let half = to_client.into_inner();
        half.as_ref().set_zero_linger()?;
        half.forget();
    }
    Ok(())
}

/// What the client says.
async fn ask(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    back: &tokio::sync::Mutex<OwnedWriteHalf>,
    lost: &watch::Sender<bool>,
    timing: &Mutex<Option<CrashTiming>>,
    shared: &Shared,
) -> io::Result<End> {
    let term = shared.journal.term();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(End::Closed);
        }
        let said = &buffer[..length];
        let commits = contains(said, COMMIT);
        *locked(timing) = shared.journal.arrived(commits.then(|| "database COMMIT".to_owned()));
        if *locked(timing) == Some(CrashTiming::BeforeForwarding) {
            shared.journal.shut();
        }
        if shared.journal.is_shut(term) {
            // The client is dead, or is about to be. When it is, the server hears of it and rolls back.
            continue;
        }
        let fault = *locked(&shared.fault);
        match fault {
            Some(DatabaseFault::NoTls) if *said == SSL_REQUEST => {
                back.lock().await.write_all(b"N").await?;
                continue;
            }
            Some(DatabaseFault::ResetAt(text)) if contains(said, text.as_bytes()) => return Ok(End::Cut),
            Some(DatabaseFault::AnswerLostAt(text)) if contains(said, text.as_bytes()) => {
                lost.send_replace(true);
            }
            _ => {}
        }
        to.write_all(said).await?;
    }
}

/// What the server answers.
async fn answer(
    mut from: OwnedReadHalf,
    to: &tokio::sync::Mutex<OwnedWriteHalf>,
    lost: &watch::Sender<bool>,
    timing: &Mutex<Option<CrashTiming>>,
    shared: &Shared,
) -> io::Result<End> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(End::Closed);
        }
        let said = &buffer[..length];
        let mut delivered = None;
        if contains(said, COMMIT) {
            let on_commit = shared.on_commit.clone();
            drop(tokio::task::spawn_blocking(move || on_commit()).await);
            match locked(timing).take() {
                Some(CrashTiming::AnswerLost) => {
                    shared.journal.shut();
                    continue;
                }
                Some(CrashTiming::AfterAnswer) => delivered = Some(Delivered(shared.journal.clone())),
                Some(CrashTiming::BeforeForwarding) | None => {}
            }
        }
        if *lost.borrow() {
            return Ok(End::Cut);
        }
        to.lock().await.write_all(said).await?;
        drop(delivered);
    }
}

fn contains(said: &[u8], text: &[u8]) -> bool {
    said.windows(text.len()).any(|part| part == text)
}
