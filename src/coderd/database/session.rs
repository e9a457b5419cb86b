//! One connection to coderd's database, and transactions that cannot hang: every wait has an end on both sides.
//! It never pools, never reads a file or the environment, and closes when it is dropped.

use super::bounded::Bounded;
use super::error::Error;
use super::schema::{self, Found};
use super::url::{DatabaseUrl, SslMode};
use crate::coderd::dial::dial;
use crate::coderd::resolve::Resolve;
use crate::coderd::tls::{self, Check};
use crate::foreign::Foreign;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::SslMode as Tls;
use tokio_postgres::{Client, Config, NoTls, Transaction};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

const OURSELVES: &str = "coder-k8s";
/// Eight bytes that ask for TLS before anything else is said: their length, and a version that does not exist.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Dialling, TLS and authentication together.
    pub connect: Duration,
    /// One statement, by the server's clock.
    pub statement: Duration,
    /// Waiting for a lock, by the server's clock.
    pub lock: Duration,
    /// A whole transaction, by ours.
    pub transaction: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            statement: Duration::from_secs(5),
            lock: Duration::from_secs(3),
            transaction: Duration::from_secs(10),
        }
    }
}

/// A connection to coderd's database. Dropping it ends it; the server undoes what was not committed.
pub struct Database {
    client: Client,
    limits: Limits,
    _connection: AbortOnDropHandle<()>,
}

impl Database {
    /// Connects and authenticates.
    pub async fn connect(url: &DatabaseUrl, resolve: &Resolve, limits: Limits) -> Result<Self, Error> {
        // What is wrong on our side is known before anybody is dialled, and told.
        let tls = encryption(url)?;
        let connecting = open(url, tls, resolve, limits);
        let opened = tokio::time::timeout(limits.connect, connecting).await;
        opened.unwrap_or_else(|_| Err(Error::TimedOut.before_login(false)))
    }

    /// Starts a transaction that ends by itself, sees only coderd's schema, and found the schema to be as we know it.
    pub(super) async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        let limits = self.limits;
        let transaction = self.client.transaction().await?;
        // For this transaction only: behind a pooler a session's settings would stay with the next user of the session.
        let settings = format!(
            "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL search_path = public, pg_temp;",
            limits.statement.as_millis(),
            limits.lock.as_millis(),
            limits.transaction.as_millis(),
        );
        transaction.batch_execute(&settings).await?;
        let rows = transaction.query_typed(schema::PROBE, &[]).await?;
        let found = rows.iter().map(Found::read).collect::<Result<Vec<Found>, Error>>()?;
        schema::judge(&found)?;
        Ok(transaction)
    }

    /// Bounds a whole transaction by our clock: a server that is gone keeps no promise about its own.
    pub(super) async fn bounded<T>(
        limits: Limits,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(limits.transaction, work).await.map_err(|_| Error::TimedOut)?
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Database").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How TLS is spoken, and with whom.
struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Whether the certificate proves who the server is.
    proves: bool,
}

/// How TLS is spoken with this database, if it is.
fn encryption(url: &DatabaseUrl) -> Result<Option<Encryption>, Error> {
    let check = match url.ssl_mode {
        SslMode::Disable => return Ok(None),
        SslMode::VerifyFull => Check::Full,
        SslMode::VerifyCa => Check::Chain,
        SslMode::Prefer | SslMode::Require => Check::Nothing,
    };
    let refused = |reason: &str| Error::TlsRefused(Foreign::new(reason));
    let mut config =
        tls::client(url.extra_ca.as_deref(), check).map_err(|error| refused(&error.to_string()))?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    // The dot that makes a name absolute is no part of a certificate's.
    let name = ServerName::try_from(url.host.trim_end_matches('.').to_owned());
    let name = name.map_err(|_| refused("the host is no name a certificate can have"))?;
    Ok(Some(Encryption { config: Arc::new(config), name, proves: check != Check::Nothing }))
}

async fn open(
    url: &DatabaseUrl,
    tls: Option<Encryption>,
    resolve: &Resolve,
    limits: Limits,
) -> Result<Database, Error> {
    let unproven = |error: Error| error.before_login(false);
    let dialled = dial(resolve, &url.host, url.port, limits.connect).await;
    let stream = dialled.map_err(|error| unproven(error.into()))?;
    let Some(tls) = tls else { return authenticate(url, stream, limits).await.map_err(unproven) };
    match offered(stream).await.map_err(unproven)? {
        (stream, true) => {
            let proves = tls.proves;
            let stream = secured(tls, stream).await.map_err(unproven)?;
            authenticate(url, stream, limits).await.map_err(|error| error.before_login(proves))
        }
        (stream, false) if url.ssl_mode == SslMode::Prefer => {
            authenticate(url, stream, limits).await.map_err(unproven)
        }
        (_, false) => Err(unproven(Error::TlsRefused("the server does not offer TLS".into()))),
    }
}

/// Asks for TLS. One byte is read and no more: what comes before the handshake must not count as part of it.
async fn offered(mut stream: TcpStream) -> Result<(TcpStream, bool), Error> {
    let asking = async {
        stream.write_all(&SSL_REQUEST).await?;
        stream.read_u8().await
    };
    match asking.await {
        Ok(b'S') => Ok((stream, true)),
        Ok(b'N') => Ok((stream, false)),
        Ok(_) => Err(Error::TlsRefused("the server does not understand the question for TLS".into())),
        Err(_) => Err(Error::Unreachable),
    }
}

async fn secured(
    tls: Encryption,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Error> {
    let connected = TlsConnector::from(tls.config).connect(tls.name, stream).await;
    connected.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        // It may quote the names of a certificate.
        Some(reason) => Error::TlsRefused(Foreign::new(&reason.to_string())),
        None => Error::Unreachable,
    })
}

async fn authenticate<S>(url: &DatabaseUrl, stream: S, limits: Limits) -> Result<Database, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut config = Config::new();
    // TLS, if any, is already spoken: the stream carries the protocol itself.
    config.ssl_mode(Tls::Disable).user(&url.user).dbname(&url.database).application_name(OURSELVES);
    if let Some(password) = &url.password {
        config.password(password.expose());
    }
    let (client, connection) = config.connect_raw(Bounded::new(stream), NoTls).await.map_err(connecting)?;
    // It ends with the client; its error is also the error of the statement that waits.
    let connection = tokio::spawn(async move { drop(connection.await) });
    Ok(Database { client, limits, _connection: AbortOnDropHandle::new(connection) })
}

/// A password that is missing or of a kind we do not speak is told without a SQLSTATE.
fn connecting(error: tokio_postgres::Error) -> Error {
    let coded = error.code().is_some();
    let broken = error.is_closed()
        || std::error::Error::source(&error).is_some_and(|cause| cause.is::<std::io::Error>());
    match (coded, broken) {
        (true, _) => error.into(),
        (false, true) => Error::Unreachable,
        (false, false) => Error::WrongPassword,
    }
}
