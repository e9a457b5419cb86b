//! One HTTPS request on a fresh connection, verified with a given CA: how a scraper or a curious pod calls us.

use crate::ports;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const LIMIT: Duration = Duration::from_secs(20);

/// A TLS connection to a loopback port, verified for `name` with the PEM certificates of `ca`.
pub async fn connect(port: u16, ca: &str, name: &str) -> Result<TlsStream<TcpStream>, String> {
    connect_from(Ipv4Addr::LOCALHOST, port, ca, name).await
}

/// A plain connection to a loopback port that comes from this loopback address: another one is another caller.
pub async fn dial_from(source: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    let dialled = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        socket.connect(ports::loopback(port)).await
    };
    dialled.await.map_err(|error| error.to_string())
}

/// The same as [`connect`] from this loopback address.
pub async fn connect_from(
    source: Ipv4Addr,
    port: u16,
    ca: &str,
    name: &str,
) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = dial_from(source, port).await?;
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
    ask_from(Ipv4Addr::LOCALHOST, port, ca, name, request, body).await
}

/// The same from this loopback address.
pub async fn ask_from(
    source: Ipv4Addr,
    port: u16,
    ca: &str,
    name: &str,
    request: http::request::Builder,
    body: &str,
) -> Result<(u16, String), String> {
    tokio::time::timeout(LIMIT, send(source, port, ca, name, request, body))
        .await
        .map_err(|_| "no answer".to_owned())?
}

async fn send(
    source: Ipv4Addr,
    port: u16,
    ca: &str,
    name: &str,
    request: http::request::Builder,
    body: &str,
) -> Result<(u16, String), String> {
    let stream = TokioIo::new(connect_from(source, port, ca, name).await?);
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
