//! One trip to coderd: dial, TLS, request, bounded answer, all within one deadline.
//! It never follows a redirect, never uses a proxy, never retries and never logs.

use super::answers::Answer;
use super::elements::{Elements, Reader, Unlisted};
use super::requests::{Credential, Request};
use crate::coderd::dial::{DialError, dial};
use crate::coderd::endpoint::{Endpoint, Scheme};
use crate::coderd::error::{Error, Lost, Operation};
use crate::coderd::resolve::Resolve;
use crate::coderd::tls::{self, Check, TrustError};
use crate::confidential::Confidential;
use crate::foreign::Foreign;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

const SESSION_TOKEN: &str = "coder-session-token";
const PROVISIONER_KEY: &str = "coder-provisioner-daemon-key";
const PROXY_TOKEN: &str = "coder-external-proxy-token";
/// The name of the access URL, for a coderd that redirects whoever does not come by it. `Host` would do as well, but a
/// mesh between us and the Service routes by it.
const FORWARDED_HOST: &str = "x-forwarded-host";
const OURSELVES: &str = concat!("coder-k8s/", env!("CARGO_PKG_VERSION"));

/// How long a call may take and how much it may bring.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For connecting, TLS included.
    pub connect: Duration,
    /// For the whole call.
    pub total: Duration,
    /// Bytes of an answer.
    pub answer: usize,
    /// Bytes of a list that is read object by object.
    pub list: usize,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// How many unused connections are kept.
    pub idle_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            total: Duration::from_secs(10),
            answer: 1 << 20,
            list: 16 << 20,
            idle: Duration::from_secs(30),
            idle_connections: 2,
        }
    }
}

/// The connections to one coderd; dropping it closes them.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    scheme: Scheme,
    base: String,
    limits: Limits,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint, resolve: Resolve, limits: Limits) -> Result<Self, TrustError> {
        let (scheme, base) = (endpoint.scheme, endpoint.to_string());
        let tls = match endpoint.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let extra_ca = endpoint.extra_ca.as_deref();
                let mut config = match endpoint.certificates.as_slice() {
                    [] => tls::client(extra_ca, Check::Full)?,
                    configured => tls::client_of(configured, extra_ca)?,
                };
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some(Arc::new(config))
            }
        };
        let connector = Connector(Arc::new(Place { endpoint, resolve, tls, limit: limits.connect }));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle)
            .pool_max_idle_per_host(limits.idle_connections)
            .build(connector);
        Ok(Self { client, scheme, base, limits })
    }

    /// Plain HTTP or TLS.
    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Sends a request and reads its whole answer. Where somebody reads a list of objects, they get those of a success one
    /// by one, and the answer has no body then.
    pub(super) async fn send(
        &self,
        request: Request,
        token: Option<&Confidential<String>>,
        access_host: Option<&HeaderValue>,
        reader: Option<&mut Reader<'_>>,
    ) -> Result<Answer, Error> {
        let operation = request.operation;
        let credential = match &request.credential {
            Credential::Nothing => None,
            Credential::Session => token.map(|token| (SESSION_TOKEN, token.clone().trimmed())),
            Credential::ProvisionerKey(plaintext) => Some((PROVISIONER_KEY, plaintext.clone())),
            Credential::WorkspaceProxy(token) => Some((PROXY_TOKEN, token.clone())),
        };
        let presented = credential.as_ref().map(|(_, secret)| secret.clone());
        let secrets = [presented, request.secret.clone()].into_iter().flatten().collect();
        // A token that cannot be a header cannot be a token.
        let sent = self.built(request, credential, access_host).ok_or(Error::Unauthorized { operation })?;
        let trip = async {
            let response = self.client.request(sent).await.map_err(|error| lost(operation, &error))?;
            let status = response.status();
            let text = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
            let (retry_after, location) = (text(RETRY_AFTER), text(LOCATION));
            let body = match reader.filter(|_| status.is_success()) {
                Some(reader) => self.list(operation, response, reader).await.map(|()| Bytes::new())?,
                None => self.body(operation, response).await?,
            };
            Ok(Answer { operation, status, retry_after, location, body, secrets })
        };
        tokio::time::timeout(self.limits.total, trip).await.map_err(|_| Error::TimedOut { operation })?
    }

    fn built(
        &self,
        request: Request,
        credential: Option<(&'static str, Confidential<String>)>,
        access_host: Option<&HeaderValue>,
    ) -> Option<http::Request<Full<Bytes>>> {
        let mut builder = http::Request::builder()
            .method(request.method)
            .uri(format!("{}{}", self.base, request.path))
            .header(USER_AGENT, OURSELVES)
            .header(ACCEPT, "application/json");
        if let Some(host) = access_host {
            builder = builder.header(FORWARDED_HOST, host);
        }
        if let Some((header, secret)) = credential {
            let mut value = HeaderValue::from_maybe_shared(wiped(secret.expose())).ok()?;
            value.set_sensitive(true);
            builder = builder.header(header, value);
        }
        let body = match request.body {
            Some(body) => {
                builder = builder.header(CONTENT_TYPE, "application/json");
                wiped(body.expose())
            }
            None => Bytes::new(),
        };
        builder.body(Full::new(body)).ok()
    }

    async fn list(
        &self,
        operation: Operation,
        response: Response<Incoming>,
        reader: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let limit = self.limits.list;
        check_announced(operation, &response, limit)?;
        let failed = |unlisted| match unlisted {
            Unlisted::Malformed => Error::Malformed { operation },
            Unlisted::TooLarge(limit) => Error::TooLarge { operation, limit },
        };
        let mut body = Limited::new(response.into_body(), limit);
        let mut elements = Elements::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unread(operation, limit, &*error))?;
            // What is no data is behind the body.
            elements.push(frame.data_ref().map_or(&[], |data| data), reader).map_err(failed)?;
        }
        elements.finish().map_err(failed)
    }

    async fn body(&self, operation: Operation, response: Response<Incoming>) -> Result<Bytes, Error> {
        let limit = self.limits.answer;
        check_announced(operation, &response, limit)?;
        match Limited::new(response.into_body(), limit).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) => Err(unread(operation, limit, &*error)),
        }
    }
}

/// Refuses an answer that says itself that it is too large.
fn check_announced(operation: Operation, response: &Response<Incoming>, limit: usize) -> Result<(), Error> {
    let announced = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let is_larger = announced.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > limit);
    if is_larger { Err(Error::TooLarge { operation, limit }) } else { Ok(()) }
}

/// The class of an answer that ends too early, or not early enough.
fn unread(operation: Operation, limit: usize, error: &(dyn std::error::Error + 'static)) -> Error {
    if error.is::<LengthLimitError>() {
        return Error::TooLarge { operation, limit };
    }
    Error::Unreachable { operation, lost: Lost::Cut }
}

/// The bytes of a secret, which are wiped when the last one who holds them lets go.
fn wiped(secret: &str) -> Bytes {
    Bytes::from_owner(Zeroizing::new(secret.as_bytes().to_vec()))
}

/// The class of a call that brought no answer.
fn lost(operation: Operation, error: &ClientError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(failure) = inner.downcast_ref::<ConnectFailure>() {
            return match failure {
                ConnectFailure::Dial(DialError::Name) => Error::Unreachable { operation, lost: Lost::Name },
                ConnectFailure::Dial(DialError::Connect) => {
                    Error::Unreachable { operation, lost: Lost::Connect }
                }
                ConnectFailure::Cut => Error::Unreachable { operation, lost: Lost::Cut },
                ConnectFailure::Dial(DialError::Forbidden(reason)) => {
                    Error::Refused { operation, reason: *reason }
                }
                ConnectFailure::Dial(DialError::TimedOut) => Error::TimedOut { operation },
                ConnectFailure::Tls(reason) => Error::Tls { operation, reason: reason.clone() },
            };
        }
        if inner.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return Error::Malformed { operation };
        }
        cause = inner.source();
    }
    Error::Unreachable { operation, lost: Lost::Cut }
}

/// Why no connection came about.
#[derive(Debug, Clone, thiserror::Error)]
enum ConnectFailure {
    #[error(transparent)]
    Dial(DialError),
    #[error("TLS: {0}")]
    Tls(Foreign),
    #[error("the connection ended during the TLS handshake")]
    Cut,
}

#[derive(Debug)]
struct Place {
    endpoint: Endpoint,
    resolve: Resolve,
    tls: Option<Arc<rustls::ClientConfig>>,
    limit: Duration,
}

/// Dials the one place it knows, whatever URL it is asked for.
#[derive(Debug, Clone)]
struct Connector(Arc<Place>);

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = ConnectFailure;
    type Future = BoxFuture<'static, Result<Self::Response, ConnectFailure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let place = self.0.clone();
        Box::pin(async move {
            let limit = place.limit;
            let timed_out = ConnectFailure::Dial(DialError::TimedOut);
            tokio::time::timeout(limit, place.connect()).await.map_err(|_| timed_out)?.map(TokioIo::new)
        })
    }
}

impl Place {
    async fn connect(&self) -> Result<Socket, ConnectFailure> {
        let endpoint = &self.endpoint;
        let stream = dial(&self.resolve, &endpoint.host, endpoint.port, self.limit).await;
        let stream = stream.map_err(ConnectFailure::Dial)?;
        let Some(tls) = &self.tls else { return Ok(Socket(Box::pin(stream))) };
        let name = ServerName::try_from(endpoint.expected_name().to_owned());
        let name =
            name.map_err(|_| ConnectFailure::Tls("the host is no name a certificate can have".into()))?;
        let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(handshake)?;
        Ok(Socket(Box::pin(stream)))
    }
}

/// A broken promise of TLS, or just a broken connection.
fn handshake(error: io::Error) -> ConnectFailure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        // It may quote the names of a certificate.
        Some(reason) => ConnectFailure::Tls(Foreign::new(&reason.to_string())),
        None => ConnectFailure::Cut,
    }
}

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// A connection with or without TLS.
struct Socket(Pin<Box<dyn Stream>>);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}
