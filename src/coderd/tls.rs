//! Whom we trust when we open TLS: the system's authorities and those a caller adds.
//! It sets up clients; whether a connection needs TLS is decided by endpoints and database URLs.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, LazyLock};

/// How much of a server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing: encryption against listeners only, as lib/pq's `sslmode=require`.
    Nothing,
    /// Its chain but not its name.
    Chain,
    /// Chain and name.
    Full,
}

/// Extra certificates that cannot be used, or TLS that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Not PEM, or no certificate in it.
    #[error("the extra CA certificates are not PEM certificates")]
    Pem,
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Read once: the folder of an image does not change.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> =
    LazyLock::new(|| rustls_native_certs::load_native_certs().certs);

/// A client that trusts the system's authorities and the extra ones.
pub(super) fn client(extra_ca: Option<&str>, check: Check) -> Result<ClientConfig, TrustError> {
    let setup = |error: Error| TrustError::Setup(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    let roots = roots(extra_ca)?;
    Ok(match check {
        Check::Full => builder.with_root_certificates(roots).with_no_client_auth(),
        Check::Chain | Check::Nothing => {
            let verifier = Lenient { chain: chain_verifier(check, roots, &provider)?, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    })
}

fn roots(extra_ca: Option<&str>) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(SYSTEM.iter().cloned());
    if let Some(pem) = extra_ca {
        let extra: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let extra = extra.ok().filter(|extra| !extra.is_empty()).ok_or(TrustError::Pem)?;
        for certificate in extra {
            roots.add(certificate).map_err(|_| TrustError::Pem)?;
        }
    }
    Ok(roots)
}

fn chain_verifier(
    check: Check,
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, TrustError> {
    if check == Check::Nothing {
        return Ok(None);
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    verifier.map(Some).map_err(|error| TrustError::Setup(error.to_string()))
}

/// Checks the chain if it has one to check against, never the name; the handshake's signatures always.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The chain is checked before the name, so that a wrong name means a good chain.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_certificates_must_be_some() {
        for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(client(Some(pem), Check::Full).err(), Some(TrustError::Pem), "{pem}");
        }
        assert!(client(None, Check::Full).is_ok() && client(None, Check::Nothing).is_ok());
    }
}
