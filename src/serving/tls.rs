//! How our listeners speak TLS: 1.2 and newer, the current leaf, and client certificates asked for where they matter.
//! A client certificate is never judged in the handshake: whoever handles the request does, with the trust of that moment.

use super::leaf::CurrentLeaf;
use crate::trust;
use rustls::ServerConfig;
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
    let builder = ServerConfig::builder_with_provider(trust::provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match clients {
        ClientCertificates::NotAsked => builder.with_no_client_auth(),
        // Trust in some authorities would abort the handshake of a client that offers a certificate of another one
        // although it means to authenticate by token.
        ClientCertificates::Requested => builder.with_client_cert_verifier(trust::any_client()),
    };
    let mut config = builder.with_cert_resolver(Arc::new(leaf.clone()));
    // No HTTP/2: it would let one connection hold a hundred requests and their buffers, and tie an API server to one
    // replica. API servers and Prometheus keep connections of HTTP/1.1 alive as well.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
