//! Asks our own listener the way a client would: it must answer HTTP over TLS with the leaf we mean to serve.
//! It checks that the port works; whether callers trust the leaf is the `caBundle`'s matter.

use super::leaf::CurrentLeaf;
use super::readiness::Gate;
use crate::trust::{self, ServerTrust, Shown};
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

const ATTEMPT_LIMIT: Duration = Duration::from_secs(2);
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1);

/// Opens the gate when the listener at `address` has answered once.
pub async fn run(address: SocketAddr, leaf: CurrentLeaf, gate: Gate, stop: CancellationToken) {
    let mut retry = FIRST_RETRY;
    loop {
        let reason = match tokio::time::timeout(ATTEMPT_LIMIT, ask(address, &leaf)).await {
            Ok(Ok(())) => return gate.open(),
            Ok(Err(reason)) => reason,
            Err(_) => format!("no answer within {ATTEMPT_LIMIT:?}"),
        };
        gate.close(reason);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(retry) => retry = (retry * 2).min(LAST_RETRY),
        }
    }
}

async fn ask(address: SocketAddr, leaf: &CurrentLeaf) -> Result<(), String> {
    let expected = leaf.get().and_then(|leaf| leaf.certificate()).ok_or("a certificate to serve")?;
    let stream = TcpStream::connect(reachable(address)).await.map_err(|error| error.to_string())?;
    let client = trust::client(Pinned(expected)).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
    let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.map_err(|error| error.to_string())?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).await.map_err(|error| error.to_string())?;
    // Any status will do: a part that has nothing to say answers 404.
    if answer.starts_with(b"HTTP/1.1") { Ok(()) } else { Err("an answer in HTTP".to_owned()) }
}

/// An unspecified address is listened on, never dialled.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}

/// Accepts exactly one certificate, which is stricter than any CA.
#[derive(Debug)]
struct Pinned(CertificateDer<'static>);

impl ServerTrust for Pinned {
    fn check(&self, shown: &Shown<'_>) -> Result<(), rustls::Error> {
        if *shown.leaf == self.0 {
            Ok(())
        } else {
            Err(rustls::Error::General("another certificate than the current leaf is served".to_owned()))
        }
    }
}
