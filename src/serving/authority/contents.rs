//! What the CA Secret holds, as values and as bytes.
//! It translates both ways and refuses what it cannot use; it never decides when to change anything.

use super::ca::{Ca, CaError, lifetime_of};
use crate::confidential::Confidential;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The CA and where its rotation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// Signs the leaves.
    pub signer: Ca,
    /// Will sign them once everybody trusts it.
    pub next: Option<Ca>,
    /// The certificates clients trust: signer, next and those that retire, as PEM each.
    pub bundle: Vec<String>,
    /// Where the rotation stands.
    pub phase: Phase,
}

/// Where a rotation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "phase")]
pub(crate) enum Phase {
    /// One CA signs and is trusted.
    Stable,
    /// A next CA is being put into every bundle.
    #[serde(rename_all = "camelCase")]
    Distributing {
        /// When every target was seen with the new bundle.
        injected_at: Option<Timestamp>,
    },
    /// The next CA signs; the one before is still trusted.
    #[serde(rename_all = "camelCase")]
    Retiring {
        /// When the next CA became the signer.
        promoted_at: Timestamp,
    },
}

/// Why a Secret cannot be used as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// A key is missing or not text.
    #[error("key {0} is missing or not text")]
    Missing(&'static str),
    /// A CA in it is unusable.
    #[error("{0}: {1}")]
    Ca(&'static str, CaError),
    /// The state is unknown.
    #[error("key state is not one this version knows")]
    State,
    /// The bundle does not contain the signer.
    #[error("bundle.crt does not contain signer.crt")]
    Bundle,
}

impl Authority {
    /// A first CA.
    pub(crate) fn first(signer: Ca) -> Self {
        let bundle = vec![signer.certificate.clone()];
        Self { signer, next: None, bundle, phase: Phase::Stable }
    }

    /// A CA in place of one that is lost. Certificates of the old bundle that can still be read stay trusted: leaves
    /// signed by them are served until every replica has a new one.
    pub(crate) fn replacing(signer: Ca, lost: &Secret, now: Timestamp) -> Self {
        let old = lost.data.as_ref().and_then(|data| text(data, "bundle.crt").ok()).unwrap_or_default();
        let mut authority = Self { bundle: certificates(old), ..Self::first(signer.clone()) };
        authority.trust(&signer, now);
        authority.phase = Phase::Retiring { promoted_at: now };
        authority
    }

    /// Reads the Secret's data.
    pub(crate) fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Unreadable> {
        let signer = read_ca(data, "signer.crt", "signer.key")?;
        let next =
            data.contains_key("next.crt").then(|| read_ca(data, "next.crt", "next.key")).transpose()?;
        let bundle = certificates(text(data, "bundle.crt")?);
        let phase = serde_json::from_str(text(data, "state")?).map_err(|_| Unreadable::State)?;
        let trusted = |ca: &Ca| bundle.iter().any(|one| one.trim() == ca.certificate.trim());
        if !trusted(&signer) || !next.as_ref().is_none_or(trusted) {
            return Err(Unreadable::Bundle);
        }
        Ok(Self { signer, next, bundle, phase })
    }

    /// The Secret's data.
    pub(crate) fn write(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put =
            |key: &str, value: &str| data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
        put("signer.crt", &self.signer.certificate);
        put("signer.key", self.signer.key.expose());
        if let Some(next) = &self.next {
            put("next.crt", &next.certificate);
            put("next.key", next.key.expose());
        }
        put("bundle.crt", &self.bundle_pem());
        // An enum of dates: it always serialises.
        put("state", &serde_json::to_string(&self.phase).unwrap_or_default());
        data
    }

    /// The bundle as clients get it.
    pub(crate) fn bundle_pem(&self) -> String {
        self.bundle.iter().map(|one| format!("{}\n", one.trim())).collect()
    }

    /// Where the CA stands, for people.
    pub(crate) fn in_words(&self) -> String {
        let phase = match self.phase {
            Phase::Stable => "stable",
            Phase::Distributing { .. } => "distributing a new CA",
            Phase::Retiring { .. } => "retiring an old CA",
        };
        format!("{phase}; the signing CA ends {}", self.signer.not_after)
    }

    /// The next CA joins the bundle.
    pub(super) fn distribute(&mut self, next: Ca, now: Timestamp) {
        self.trust(&next, now);
        self.next = Some(next);
        self.phase = Phase::Distributing { injected_at: None };
    }

    /// The next CA signs.
    pub(super) fn promote(&mut self, now: Timestamp) {
        if let Some(next) = self.next.take() {
            self.signer = next;
        }
        self.phase = Phase::Retiring { promoted_at: now };
    }

    /// Only the signer is trusted.
    pub(super) fn complete(&mut self) {
        self.bundle = vec![self.signer.certificate.clone()];
        self.phase = Phase::Stable;
    }

    /// Adds a CA to the bundle and drops those whose life is over.
    fn trust(&mut self, ca: &Ca, now: Timestamp) {
        self.bundle.push(ca.certificate.clone());
        self.bundle.retain(|one| lifetime_of(one).is_ok_and(|(_, not_after)| not_after > now));
    }
}

fn text<'a>(data: &'a BTreeMap<String, ByteString>, key: &'static str) -> Result<&'a str, Unreadable> {
    let bytes = data.get(key).ok_or(Unreadable::Missing(key))?;
    std::str::from_utf8(&bytes.0).map_err(|_| Unreadable::Missing(key))
}

fn read_ca(
    data: &BTreeMap<String, ByteString>,
    certificate: &'static str,
    key: &'static str,
) -> Result<Ca, Unreadable> {
    let secret = Confidential::new(text(data, key)?.to_owned());
    Ca::read(text(data, certificate)?.to_owned(), secret).map_err(|error| Unreadable::Ca(certificate, error))
}

/// Splits a file of PEM certificates into its certificates.
pub(in crate::serving) fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = pem.split_inclusive(END).filter(|part| part.contains(END));
    parts.map(|part| format!("{}\n", part.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ca() -> Ca {
        Ca::generate(Timestamp::from_second(1_800_000_000).unwrap(), Duration::from_secs(3600)).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut authority = Authority::first(ca());
        let next = ca();
        authority.distribute(next, now);
        assert_eq!(Authority::read(&authority.write()).unwrap(), authority);
    }

    #[test]
    fn a_bundle_without_the_signer_is_refused() {
        let mut authority = Authority::first(ca());
        authority.bundle = vec![ca().certificate];
        assert!(matches!(Authority::read(&authority.write()), Err(Unreadable::Bundle)));
    }

    #[test]
    fn an_emptied_secret_is_refused_and_named() {
        let error = Authority::read(&BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("signer.key"), "{error}");
    }

    #[test]
    fn a_lost_ca_stays_trusted_as_long_as_its_certificate_can_be_read() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let (old, new) = (Authority::first(ca()), ca());
        let mut data = old.write();
        data.remove("signer.key");
        let lost = Secret { data: Some(data), ..Secret::default() };
        let replaced = Authority::replacing(new.clone(), &lost, now);
        assert_eq!(replaced.bundle, vec![old.signer.certificate, new.certificate.clone()]);
        assert_eq!(Authority::read(&replaced.write()).unwrap(), replaced);
        let gone = Authority::replacing(new.clone(), &Secret::default(), now);
        assert_eq!(gone.bundle, vec![new.certificate]);
    }

    #[test]
    fn expired_certificates_leave_the_bundle() {
        let mut authority = Authority::first(ca());
        let later = Timestamp::from_second(1_800_000_000 + 7200).unwrap();
        let next = Ca::generate(later, Duration::from_secs(3600)).unwrap();
        authority.trust(&next, later);
        assert_eq!(authority.bundle, vec![next.certificate]);
    }
}
