//! One HTTPS request on a fresh connection, verified with a given CA: how a scraper or a curious pod calls us.

use crate::ports;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const LIMIT: Duration = Duration::from_secs(20);

/// A TLS connection to a loopback port, verified for `name` with the PEM certificates of `ca`.
pub async fn connect(port: u16, ca: &str, name: &str) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(ports::loopback(port)).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| format!("handshake: {error}"))
}

/// Status and body of one request.
pub async fn ask(
    port: u16,
    ca: &str,
    name: &str,
    request: http::request::Builder,
    body: &str,
) -> Result<(u16, String), String> {
    tokio::time::timeout(LIMIT, send(port, ca, name, request, body))
        .await
        .map_err(|_| "no answer".to_owned())?
}

async fn send(
    port: u16,
    ca: &str,
    name: &str,
    request: http::request::Builder,
    body: &str,
) -> Result<(u16, String), String> {
    let stream = TokioIo::new(connect(port, ca, name).await?);
    let builder = hyper::client::conn::http1::Builder::new();
    let handshake = builder.handshake::<_, Full<bytes::Bytes>>(stream).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    let request = request.header("host", name).body(Full::from(body.to_owned())).expect("a request");
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let text = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    drop(connection);
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}
