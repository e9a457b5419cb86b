//! How our listeners speak TLS: 1.2 and newer, the current leaf, and client certificates asked for where they matter.
//! A client certificate is never judged in the handshake: whoever handles the request does, with the trust of that moment.

use super::leaf::CurrentLeaf;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use std::sync::Arc;

/// Whether a listener asks its clients for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No.
    NotAsked,
    /// Yes; none is fine too.
    Requested,
}

/// The server side of TLS for a listener.
pub fn server_config(leaf: &CurrentLeaf, clients: ClientCertificates) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match clients {
        ClientCertificates::NotAsked => builder.with_no_client_auth(),
        ClientCertificates::Requested => builder.with_client_cert_verifier(Arc::new(AskOnly { provider })),
    };
    let mut config = builder.with_cert_resolver(Arc::new(leaf.clone()));
    // No HTTP/2: it would let one connection hold a hundred requests and their buffers, and tie an API server to one
    // replica. API servers and Prometheus keep connections of HTTP/1.1 alive as well.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Takes any chain whose owner proves to hold its key. A verifier with roots would abort the handshake of a client that
/// offers a certificate of another CA although it means to authenticate by token.
#[derive(Debug)]
struct AskOnly {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AskOnly {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
