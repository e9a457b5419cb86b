//! The double behind TLS: a second port that presents, for each name that is asked for, the certificate a test gave it.
//! It never makes a certificate, and for a name without one the handshake fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::server::Coderd;
use crate::cluster::pki::Pair;

/// Marks a request that came over TLS.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverTls;

/// What is presented to whom, by the name that the client asks for.
#[derive(Debug, Default)]
pub(super) struct Certificates(RwLock<BTreeMap<String, Arc<CertifiedKey>>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(hello.server_name()?).cloned()
    }
}

/// Accepts TLS with these certificates.
pub(super) fn acceptor(certificates: Arc<Certificates>) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has the default versions");
    TlsAcceptor::from(Arc::new(builder.with_no_client_auth().with_cert_resolver(certificates)))
}

impl Coderd {
    /// Where it listens with TLS.
    pub fn tls_addr(&self) -> SocketAddr {
        self.tls_addr
    }

    /// Presents this certificate, with the chain behind it, to whoever asks for `host`.
    ///
    /// # Panics
    /// If the pair is not PEM.
    pub fn present(&self, host: &str, pair: &Pair) {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a private key as PEM");
        let key = ring::sign::any_supported_type(&key).expect("a key that ring can sign with");
        let certified = Arc::new(CertifiedKey::new(chain.expect("certificates as PEM"), key));
        let mut known = self.certificates().0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(host.to_owned(), certified);
    }
}
