//! Whom we trust when we open TLS: the system's authorities, those a caller adds, and certificates a server is known to
//! have. It sets up clients; whether a connection needs TLS is decided by endpoints and database URLs.

use crate::foreign::Foreign;
use crate::trust::{self, Authorities, ServerTrust, Shown};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use std::fmt::Display;
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

/// A client that trusts the system's authorities and the extra ones.
pub(super) fn client(extra_ca: Option<&str>, check: Check) -> Result<ClientConfig, TrustError> {
    let roots = roots(extra_ca)?;
    let client = match check {
        Check::Full => trust::client_of_authorities(roots),
        Check::Chain => trust::client(AnyName(authorities(roots)?)),
        Check::Nothing => trust::client(Anybody),
    };
    client.map_err(setup)
}

/// A client of a server that is configured with these certificates (PEM, the leaf of each first): exactly one of the
/// leaves counts, or another for one of their names by an authority we trust. That is how a certificate that was renewed
/// a moment ago and the one before it are both good.
pub(super) fn client_of(certificates: &[String], extra_ca: Option<&str>) -> Result<ClientConfig, TrustError> {
    let mut roots = roots(extra_ca)?;
    let (mut leaves, mut names) = (Vec::new(), Vec::new());
    for pem in certificates {
        if pem.len() > LARGEST_PEM {
            return Err(TrustError::TooLarge);
        }
        let mut chain = trust::certificates(pem).map_err(|_| TrustError::Configured)?.into_iter();
        let leaf = chain.next().ok_or(TrustError::Configured)?;
        names.extend(names_of(&leaf, MOST_NAMES - names.len()));
        leaves.push(leaf);
        // Whoever chose the leaf chose who stands behind it.
        roots.add_parsable_certificates(chain);
    }
    // Without any authority only the leaves themselves count.
    let chain = if roots.is_empty() { None } else { Some(authorities(roots)?) };
    trust::client(Configured { leaves, names, chain }).map_err(setup)
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
    let mut roots = trust::system_authorities();
    if let Some(pem) = extra_ca {
        let extra = trust::certificates(pem).ok().filter(|extra| !extra.is_empty());
        for certificate in extra.ok_or(TrustError::Pem)? {
            roots.add(certificate).map_err(|_| TrustError::Pem)?;
        }
    }
    Ok(roots)
}

fn authorities(roots: RootCertStore) -> Result<Authorities, TrustError> {
    Authorities::new(roots).map_err(setup)
}

fn setup(error: impl Display) -> TrustError {
    TrustError::Setup(Foreign::new(&error.to_string()))
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

/// Nothing is asked of a certificate.
#[derive(Debug)]
struct Anybody;

impl ServerTrust for Anybody {
    fn check(&self, _: &Shown<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// A certificate's chain counts, never its name.
#[derive(Debug)]
struct AnyName(Authorities);

impl ServerTrust for AnyName {
    fn check(&self, shown: &Shown<'_>) -> Result<(), Error> {
        self.0.check(shown).or_else(|error| if is_only_the_name(&error) { Ok(()) } else { Err(error) })
    }
}

/// A certificate is one of these leaves, or another for one of their names.
#[derive(Debug)]
struct Configured<T> {
    leaves: Vec<CertificateDer<'static>>,
    names: Vec<ServerName<'static>>,
    chain: Option<T>,
}

impl<T: ServerTrust> Configured<T> {
    fn is_alike(&self, shown: &Shown<'_>) -> bool {
        let Some(chain) = &self.chain else { return false };
        // The chain is dear and the same for each name: it is checked once.
        let trusted = chain.check(shown).map_or_else(|error| is_only_the_name(&error), |()| true);
        let for_one_of_the_names = || {
            let parsed = ParsedCertificate::try_from(shown.leaf);
            parsed.is_ok_and(|leaf| self.names.iter().any(|name| verify_server_name(&leaf, name).is_ok()))
        };
        trusted && for_one_of_the_names()
    }
}

impl<T: ServerTrust> ServerTrust for Configured<T> {
    fn check(&self, shown: &Shown<'_>) -> Result<(), Error> {
        if self.leaves.contains(shown.leaf) || self.is_alike(shown) {
            Ok(())
        } else {
            Err(Error::General(NOT_CONFIGURED.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;
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

    impl ServerTrust for &Counted {
        fn check(&self, _: &Shown<'_>) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(CertificateError::NotValidForName.into())
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
        let counted = Counted::default();
        let configured = Configured { leaves: vec![leaf.der().clone()], names, chain: Some(&counted) };
        let host = ServerName::try_from("coder.team.svc").unwrap();
        let presented = |name: &str| {
            let other = certificate(vec![name.to_owned()]);
            let (leaf, now) = (other.der(), UnixTime::now());
            configured.check(&Shown { leaf, intermediates: &[], name: &host, ocsp: &[], now }).is_ok()
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
