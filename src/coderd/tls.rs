//! Whom we trust when we open TLS: the system's authorities, those a caller adds, and certificates a server is known to
//! have. It sets up clients; whether a connection needs TLS is decided by endpoints and database URLs.

use crate::foreign::Foreign;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime, pem::PemObject};
use rustls::server::ParsedCertificate;
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
    /// More than anybody needs.
    #[error("the server's own certificates are larger than {} KiB", LARGEST_PEM / 1024)]
    TooLarge,
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(Foreign),
}

/// Bytes of one file of certificates that we read; a chain has a few thousand. Others choose what is in it, and every
/// byte costs us at each handshake.
pub const LARGEST_PEM: usize = 64 * 1024;

/// Names of the configured certificates that another one is compared with.
const MOST_NAMES: usize = 32;

/// What is said of a certificate that is neither of those a server is configured with nor one like them.
const NOT_CONFIGURED: &str = "coderd presents another certificate than the one in its Secret, and not one for the same name by an authority in ca.crt";

/// Read once: the folder of an image does not change.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> =
    LazyLock::new(|| rustls_native_certs::load_native_certs().certs);

/// A client that trusts the system's authorities and the extra ones.
pub(super) fn client(extra_ca: Option<&str>, check: Check) -> Result<ClientConfig, TrustError> {
    let setup = |error: Error| TrustError::Setup(Foreign::new(&error.to_string()));
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
    let setup = |error: Error| TrustError::Setup(Foreign::new(&error.to_string()));
    let provider = Arc::new(ring::default_provider());
    let mut roots = roots(extra_ca)?;
    let (mut leaves, mut names) = (Vec::new(), Vec::new());
    for pem in certificates {
        if pem.len() > LARGEST_PEM {
            return Err(TrustError::TooLarge);
        }
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let mut chain = chain.map_err(|_| TrustError::Configured)?.into_iter();
        let leaf = chain.next().ok_or(TrustError::Configured)?;
        names.extend(names_of(&leaf, MOST_NAMES - names.len()));
        leaves.push(leaf);
        // Whoever chose the leaf chose who stands behind it.
        roots.add_parsable_certificates(chain);
    }
    // Without any authority only the leaves themselves count.
    let chain: Option<Arc<dyn ServerCertVerifier>> =
        if roots.is_empty() { None } else { Some(chain_verifier(roots, &provider)?) };
    let policy = Policy::Configured { leaves, names, chain };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    let verifier = Verifier { policy, provider };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The first names a certificate is for, at most so many; of a wildcard, one name that it covers.
fn names_of(certificate: &CertificateDer<'_>, most: usize) -> Vec<ServerName<'static>> {
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
    extension.value.general_names.iter().filter_map(name).take(most).collect()
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
    verifier.map_err(|error| TrustError::Setup(Foreign::new(&error.to_string())))
}

/// Whether nothing but the name is wrong: the chain is checked before it.
fn is_only_the_name(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    )
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
        chain: Option<Arc<dyn ServerCertVerifier>>,
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
                    Err(error) if is_only_the_name(&error) => Ok(ServerCertVerified::assertion()),
                    outcome => outcome,
                }
            }
            Policy::Configured { leaves, .. } if leaves.iter().any(|leaf| leaf == end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            Policy::Configured { names, chain: Some(chain), .. } => {
                // The chain is dear and the same for each name: it is checked once.
                let chain = chain.verify_server_cert(end_entity, intermediates, name, ocsp, now);
                let trusted = chain.map_or_else(|error| is_only_the_name(&error), |_| true);
                let alike = || {
                    let parsed = ParsedCertificate::try_from(end_entity).ok()?;
                    names.iter().find(|name| verify_server_name(&parsed, name).is_ok())
                };
                let verified = trusted.then(alike).flatten().map(|_| ServerCertVerified::assertion());
                verified.ok_or_else(|| Error::General(NOT_CONFIGURED.to_owned()))
            }
            Policy::Configured { chain: None, .. } => Err(Error::General(NOT_CONFIGURED.to_owned())),
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn extra_certificates_must_be_some() {
        for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(client(Some(pem), Check::Full).err(), Some(TrustError::Pem), "{pem}");
        }
        assert!(client(None, Check::Full).is_ok() && client(None, Check::Nothing).is_ok());
    }
    /// A chain that is good, and how often it was checked.
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl ServerCertVerifier for Counted {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(CertificateError::NotValidForName.into())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    fn certificate(names: Vec<String>) -> rcgen::Certificate {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap()
    }

    /// Whoever writes the Secret chooses the names.
    #[test]
    fn a_leaf_with_a_hundred_thousand_names_costs_one_check_of_the_chain_and_few_names() {
        let leaf = certificate((0..100_000).map(|one| format!("n{one}.example.com")).collect());
        assert_eq!(client_of(&[leaf.pem()], None).err(), Some(TrustError::TooLarge));
        let names = names_of(leaf.der(), MOST_NAMES);
        assert_eq!(names.len(), MOST_NAMES);
        let counted = Arc::new(Counted::default());
        let policy =
            Policy::Configured { leaves: vec![leaf.der().clone()], names, chain: Some(counted.clone()) };
        let verifier = Verifier { policy, provider: Arc::new(ring::default_provider()) };
        let host = ServerName::try_from("coder.team.svc").unwrap();
        let presented = |name: &str| {
            let other = certificate(vec![name.to_owned()]);
            verifier.verify_server_cert(other.der(), &[], &host, &[], UnixTime::now()).is_ok()
        };
        for (checks, (name, good)) in
            [("n0.example.com", true), ("n31.example.com", true), ("n32.example.com", false), ("evil", false)]
                .into_iter()
                .enumerate()
        {
            assert_eq!(presented(name), good, "{name}");
            assert_eq!(counted.0.load(Ordering::Relaxed), checks + 1);
        }
    }

    #[test]
    fn names_are_counted_over_all_certificates() {
        let many: Vec<String> = (0..20)
            .map(|one| certificate((0..10).map(|name| format!("n{name}.c{one}.example.com")).collect()).pem())
            .collect();
        assert!(client_of(&many, None).is_ok(), "more names than are compared are no error");
    }
}
