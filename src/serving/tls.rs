//! How our listeners speak TLS: 1.2 and newer, with the current leaf.
//! Nobody is asked for a client certificate: callers prove by a token who they are.

use super::leaf::CurrentLeaf;
use crate::trust;
use rustls::ServerConfig;
use std::sync::Arc;

/// The server side of TLS for a listener.
pub(crate) fn server_config(leaf: &CurrentLeaf) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(trust::provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(leaf.clone()));
    // No HTTP/2: it would let one connection hold a hundred requests and their buffers, and tie an API server to one
    // replica. API servers and Prometheus keep connections of HTTP/1.1 alive as well.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
