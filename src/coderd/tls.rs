//! Whom we trust when we open TLS: the system's authorities, those a caller adds, and certificates a server is known to
//! have. It sets up clients; whether a connection needs TLS is decided by endpoints and database URLs.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime, pem::PemObject};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, LazyLock};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

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
    /// The certificates a server is configured with are not PEM, or there is none.
    #[error("the server's own certificates are not PEM certificates")]
    Configured,
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// What is said of a certificate that is neither of those a server is configured with nor one like them.
const NOT_CONFIGURED: &str = "coderd presents another certificate than the one in its Secret, and not one for the same name by an authority in ca.crt";

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
    let policy = match check {
        Check::Full => return Ok(builder.with_root_certificates(roots).with_no_client_auth()),
        Check::Chain => Policy::Chain(chain_verifier(roots, &provider)?),
        Check::Nothing => Policy::Nothing,
    };
    let verifier = Verifier { policy, provider };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// A client of a server that is configured with these certificates (PEM, the leaf of each first): exactly one of the
/// leaves counts, or another for one of their names by an authority we trust. That is how a certificate that was renewed
/// a moment ago and the one before it are both good.
pub(super) fn client_of(certificates: &[String], extra_ca: Option<&str>) -> Result<ClientConfig, TrustError> {
    let setup = |error: Error| TrustError::Setup(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mut roots = roots(extra_ca)?;
    let (mut leaves, mut names) = (Vec::new(), Vec::new());
    for pem in certificates {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let mut chain = chain.map_err(|_| TrustError::Configured)?.into_iter();
        let leaf = chain.next().ok_or(TrustError::Configured)?;
        names.extend(names_of(&leaf));
        leaves.push(leaf);
        // Whoever chose the leaf chose who stands behind it.
        roots.add_parsable_certificates(chain);
    }
    // Without any authority only the leaves themselves count.
    let chain = if roots.is_empty() { None } else { Some(chain_verifier(roots, &provider)?) };
    let policy = Policy::Configured { leaves, names, chain };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    let verifier = Verifier { policy, provider };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The names a certificate is for; of a wildcard, one name that it covers.
fn names_of(certificate: &CertificateDer<'_>) -> Vec<ServerName<'static>> {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => {
            let name = name.strip_prefix("*.").map_or((*name).to_owned(), |below| format!("any.{below}"));
            ServerName::try_from(name).ok()
        }
        GeneralName::IPAddress(octets) => {
            let address = match <[u8; 4]>::try_from(*octets) {
                Ok(four) => std::net::IpAddr::from(four),
                Err(_) => std::net::IpAddr::from(<[u8; 16]>::try_from(*octets).ok()?),
            };
            Some(ServerName::IpAddress(IpAddr::from(address)))
        }
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
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
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TrustError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    verifier.map_err(|error| TrustError::Setup(error.to_string()))
}

/// What makes a certificate good.
#[derive(Debug)]
enum Policy {
    /// Nothing is asked of it.
    Nothing,
    /// Its chain, never its name.
    Chain(Arc<WebPkiServerVerifier>),
    /// That it is one of these leaves, or another for one of their names.
    Configured {
        leaves: Vec<CertificateDer<'static>>,
        names: Vec<ServerName<'static>>,
        chain: Option<Arc<WebPkiServerVerifier>>,
    },
}

/// Checks what the policy asks for; the handshake's signatures always.
#[derive(Debug)]
struct Verifier {
    policy: Policy,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.policy {
            Policy::Nothing => Ok(ServerCertVerified::assertion()),
            Policy::Chain(chain) => {
                match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
                    // The chain is checked before the name, so that a wrong name means a good chain.
                    Err(Error::InvalidCertificate(
                        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                    )) => Ok(ServerCertVerified::assertion()),
                    outcome => outcome,
                }
            }
            Policy::Configured { leaves, .. } if leaves.iter().any(|leaf| leaf == end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            Policy::Configured { names, chain, .. } => {
                let good = |name: &ServerName<'_>| {
                    let chain = chain.as_ref()?;
                    chain.verify_server_cert(end_entity, intermediates, name, ocsp, now).ok()
                };
                names.iter().find_map(good).ok_or_else(|| Error::General(NOT_CONFIGURED.to_owned()))
            }
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
