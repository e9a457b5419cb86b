//! Asks our own listener the way a client would: it must answer HTTP over TLS with the leaf we mean to serve.
//! It checks that the port works; whether callers trust the leaf is the `caBundle`'s matter.

use super::leaf::CurrentLeaf;
use super::readiness::Gate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
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
    let connector = TlsConnector::from(Arc::new(client_config(expected).map_err(|error| error.to_string())?));
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

fn client_config(expected: CertificateDer<'static>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pinned = Pinned { expected, provider: provider.clone() };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned)).with_no_client_auth())
}

/// Accepts exactly one certificate, which is stricter than any CA.
#[derive(Debug)]
struct Pinned {
    expected: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.expected {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("another certificate than the current leaf is served".to_owned()))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
