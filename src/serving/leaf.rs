//! The certificate this replica serves: signed here, kept in memory, swapped while connections go on.
//! The key never leaves the process.

use super::authority::{Ca, CaError};
use crate::trust;
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A certificate with its key, and what decides when it needs a successor.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    certified: Arc<CertifiedKey>,
    not_before: Timestamp,
    /// When it should be followed by another.
    pub renew_at: Timestamp,
    /// When it ends.
    pub not_after: Timestamp,
    names: BTreeSet<String>,
    signer: String,
}

/// Why a leaf could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeafError {
    /// The CA cannot sign.
    #[error("cannot sign with this CA: {0}")]
    Sign(#[from] CaError),
    /// A name or the certificate is not acceptable.
    #[error("cannot make a certificate for these names: {0}")]
    Certificate(rcgen::Error),
    /// The key or chain cannot be served.
    #[error("cannot serve this certificate and key")]
    Serve,
}

impl Leaf {
    /// Signs a leaf for these names.
    pub(crate) fn mint(
        signer: &Ca,
        names: BTreeSet<String>,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Self, LeafError> {
        let (not_before, wished) = super::authority::validity(now, lifetime)?;
        // A leaf that outlives its CA would be refused while it still looks good.
        let not_after = wished.min(signer.not_after);
        let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())
            .map_err(LeafError::Certificate)?;
        params.distinguished_name.push(DnType::CommonName, "coder-k8s");
        params.not_before = super::authority::date(not_before)?;
        params.not_after = super::authority::date(not_after)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(LeafError::Certificate)?;
        let certificate = params.signed_by(&key, &signer.issuer()?).map_err(LeafError::Certificate)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| LeafError::Serve)?;
        let certified = certified(vec![certificate.der().clone()], &private)?;
        let renew_at = not_after.checked_sub(not_after.duration_since(now) / 2).unwrap_or(now);
        Ok(Self { certified, not_before, renew_at, not_after, names, signer: signer.certificate.clone() })
    }

    /// A leaf somebody else made, from PEM.
    pub(crate) fn read(chain: &str, key: &str) -> Result<Self, LeafError> {
        let (not_before, not_after) = super::authority::lifetime_of(chain)?;
        let chain = trust::certificates(chain).map_err(|_| LeafError::Serve)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| LeafError::Serve)?;
        let certified = certified(chain, &key)?;
        certified.keys_match().map_err(|_| LeafError::Serve)?;
        let (names, signer) = (BTreeSet::new(), String::new());
        Ok(Self { certified, not_before, renew_at: not_after, not_after, names, signer })
    }

    /// Whether another leaf is due: time passed, the signer changed, or other names are wanted.
    pub(crate) fn is_due(&self, signer: &Ca, names: &BTreeSet<String>, now: Timestamp) -> bool {
        self.is_aged(now) || self.signer != signer.certificate || self.names != *names
    }

    /// Whether time alone asks for another, also on a clock that was set back.
    pub(crate) fn is_aged(&self, now: Timestamp) -> bool {
        now >= self.renew_at || now < self.not_before
    }

    /// Whether clients accept its dates.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        (self.not_before..self.not_after).contains(&now)
    }

    /// The names it is good for.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The certificate as sent in a handshake, first of its chain.
    pub(crate) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certified.cert.first().cloned()
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'_>,
) -> Result<Arc<CertifiedKey>, LeafError> {
    let key = any_supported_type(key).map_err(|_| LeafError::Serve)?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// The leaf all listeners of the process serve. Cloning is cheap; a new leaf counts for new connections at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentLeaf(Arc<ArcSwapOption<Leaf>>);

impl CurrentLeaf {
    /// The leaf in use.
    pub(crate) fn get(&self) -> Option<Arc<Leaf>> {
        self.0.load_full()
    }

    /// Puts another in its place.
    pub(crate) fn set(&self, leaf: Leaf) {
        self.0.store(Some(Arc::new(leaf)));
    }
}

impl ResolvesServerCert for CurrentLeaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get().map(|leaf| leaf.certified.clone())
    }
}

/// The names a Service is reached by, from short to long; a name with dots stands for itself.
pub(crate) fn service_names(service: &str, namespace: &str, cluster_domain: &str) -> Vec<String> {
    if service.contains('.') || service == "localhost" {
        return vec![service.to_owned()];
    }
    vec![
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{cluster_domain}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::authority::Authority;
    use super::*;
    use crate::trust::{Authorities, ServerTrust, Shown};
    use rustls::pki_types::{ServerName, UnixTime};

    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What an API server does with a `caBundle`.
    fn verify(leaf: &Leaf, bundle: &str, name: &str, now: Timestamp) -> Result<(), rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in trust::certificates(bundle).unwrap() {
            roots.add(certificate).unwrap();
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap()));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let leaf = &leaf.certificate().unwrap();
        let shown = Shown { leaf, intermediates: &[], name: &name, ocsp: &[], now };
        Authorities::new(roots).unwrap().check(&shown)
    }

    #[test]
    fn a_leaf_verifies_against_the_injected_bundle_for_its_names_only() {
        let authority = Authority::first(Ca::generate(now(), WEEK * 52).unwrap());
        let wanted = service_names("hooks", "coder-system", "cluster.local").into_iter().collect();
        let leaf = Leaf::mint(&authority.signer, wanted, now(), WEEK).unwrap();
        verify(&leaf, &authority.bundle_pem(), "hooks.coder-system.svc", now()).unwrap();
        verify(&leaf, &authority.bundle_pem(), "hooks.other.svc", now()).unwrap_err();
        let other = Authority::first(Ca::generate(now(), WEEK).unwrap());
        verify(&leaf, &other.bundle_pem(), "hooks.coder-system.svc", now()).unwrap_err();
    }

    #[test]
    fn a_leaf_never_outlives_its_ca() {
        let ca = Ca::generate(now(), Duration::from_secs(3600)).unwrap();
        let leaf = Leaf::mint(&ca, names(&["a"]), now(), WEEK).unwrap();
        assert_eq!(leaf.not_after, ca.not_after);
    }

    #[test]
    fn a_leaf_is_due_at_half_its_life_for_a_new_signer_and_for_new_names() {
        let ca = Ca::generate(now(), WEEK * 52).unwrap();
        let leaf = Leaf::mint(&ca, names(&["a"]), now(), WEEK).unwrap();
        assert!(!leaf.is_due(&ca, &names(&["a"]), now()));
        assert!(leaf.is_due(&ca, &names(&["a", "b"]), now()));
        let half = now() + jiff::SignedDuration::try_from(WEEK / 2).unwrap();
        assert!(leaf.is_due(&ca, &names(&["a"]), half));
        let other = Ca::generate(now(), WEEK * 52).unwrap();
        assert!(leaf.is_due(&other, &names(&["a"]), now()));
        let set_back = now() - jiff::SignedDuration::from_hours(48);
        assert!(leaf.is_due(&ca, &names(&["a"]), set_back) && !leaf.is_current(set_back));
    }

    #[test]
    fn a_service_is_known_by_all_its_names_and_a_host_by_its_own() {
        let all = ["s", "s.n", "s.n.svc", "s.n.svc.cluster.local"];
        assert_eq!(service_names("s", "n", "cluster.local"), all);
        assert_eq!(service_names("mcp.example.com", "n", "cluster.local"), ["mcp.example.com"]);
    }
}
