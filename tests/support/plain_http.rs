//! One HTTP request on a fresh connection, exactly as written, and its answer as it came.
//! It follows nothing, retries nothing and adds no header but the host, unless that is given.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(20);

/// A request before it is sent.
#[derive(Debug, Clone)]
pub struct Ask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// All headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: String,
}

impl Answer {
    /// The value of a header, if it was sent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Ask {
    /// A request without headers and body.
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: String::new() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body and says that it is JSON, whether it is or not.
    pub fn json(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self.header("content-type", "application/json")
    }

    /// Sends it; an error is in words.
    pub async fn send(&self, to: SocketAddr) -> Result<Answer, String> {
        tokio::time::timeout(LIMIT, self.trip(to)).await.map_err(|_| "no answer".to_owned())?
    }

    /// Sends it over TLS, verified for `name` with the PEM certificates of `ca`.
    pub async fn send_over_tls(&self, to: SocketAddr, ca: &str, name: &str) -> Result<Answer, String> {
        let trip = async {
            let stream = crate::https::connect(to.port(), ca, name).await?;
            self.over(stream, to).await
        };
        tokio::time::timeout(LIMIT, trip).await.map_err(|_| "no answer".to_owned())?
    }

    async fn trip(&self, to: SocketAddr) -> Result<Answer, String> {
        let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
        self.over(stream, to).await
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        to: SocketAddr,
    ) -> Result<Answer, String> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        let _connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
        let mut request = http::Request::builder().method(self.method.as_str()).uri(&self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", to.to_string());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = Full::new(bytes::Bytes::from(self.body.clone()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }
}
