//! Decides when pods have to be started again because their control plane serves with another CA: they read what they trust
//! once. A certificate that is renewed under the same CA changes nothing where its Secret holds that CA.

use super::address::leaf;
use crds::names::hash::hex32;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

/// Secrets with certificates that are read: a control plane is reached by no more of them either.
pub(crate) const MOST: usize = 8;

/// What is kept of a Secret that a control plane serves with, so that the next one is read when this one is gone: up to eight of
/// them may be as large as a Secret can be. Of a private key nothing is kept.
pub(crate) struct Served {
    name: String,
    /// Digest of what pods trust of it.
    trusted: Option<String>,
    /// The certificate itself, if it can be read.
    pub(crate) leaf: Option<CertificateDer<'static>>,
}

impl Served {
    /// Of a Secret of this name.
    pub(crate) fn of(name: &str, secret: &Value) -> Self {
        let digest = |text: &str| -> String {
            let digest = digest(&SHA256, text.as_bytes());
            digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Self { name: name.to_owned(), trusted: trusted(secret).map(digest), leaf: leaf(secret) }
    }
}

/// What pods trust of a Secret that their control plane serves with: its CA, or the certificate itself where there is none.
fn trusted(secret: &Value) -> Option<&str> {
    let text = |key: &str| secret["data"][key].as_str().filter(|encoded| !encoded.is_empty());
    text("ca.crt").or(text("tls.crt"))
}

/// What changes when pods have to trust something else; nothing while there is nothing to trust. By the names of the
/// Secrets, in the order of the spec.
pub(crate) fn checksum(secrets: &[Served]) -> Option<String> {
    let line = |one: &Served| Some(format!("{} {}\n", one.name, one.trusted.as_ref()?));
    let all: Vec<String> = secrets.iter().filter_map(line).collect();
    (!all.is_empty()).then(|| hex32(all.concat().as_bytes()))
}

/// Whether all of so many Secrets were found, with something to trust in each.
pub(crate) fn are_whole(secrets: &[Served], number: usize) -> bool {
    secrets.len() >= number.min(MOST) && secrets.iter().all(|one| one.trusted.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn another_ca_changes_it_and_a_renewed_certificate_does_not() {
        let secret =
            |ca: Value, certificate: &str| json!({ "data": { "ca.crt": ca, "tls.crt": certificate } });
        let of = |secret: &Value| checksum(&[Served::of("tls", secret)]);
        let before = of(&secret(json!("Y2E="), "b25l"));
        assert!(before.is_some());
        assert_eq!(of(&secret(json!("Y2E="), "dHdv")), before, "renewed under the same CA");
        assert_ne!(of(&secret(json!("Y2Ey"), "b25l")), before, "another CA");
        let alone = |certificate: &str| of(&secret(Value::Null, certificate));
        assert_ne!(alone("b25l"), alone("dHdv"), "one that is trusted itself");
        assert_eq!((of(&json!({})), checksum(&[])), (None, None), "nothing to trust");
        let (one, two) = (secret(json!("Y2E="), ""), json!({}));
        let named = |name: &str| checksum(&[Served::of(name, &one)]);
        assert_eq!(checksum(&[Served::of("a", &one), Served::of("b", &two)]), named("a"));
        assert_ne!(named("a"), named("b"));
    }

    #[test]
    fn a_secret_that_is_absent_or_empty_for_a_moment_is_noticed() {
        let served = |data: Value| Served::of("tls", &json!({ "data": data }));
        let whole = || served(json!({ "ca.crt": "Y2E=" }));
        assert!(are_whole(&[], 0) && are_whole(&[whole(), whole()], 2));
        assert!(!are_whole(&[whole()], 2), "one is deleted, to be issued anew");
        assert!(!are_whole(&[whole(), served(json!({}))], 2), "one is made, and not filled yet");
        let most: Vec<Served> = std::iter::repeat_with(whole).take(MOST).collect();
        assert!(are_whole(&most, MOST + 1), "no more are read");
    }

    #[test]
    fn however_large_a_secret_is_little_of_it_is_kept() {
        let large = "QUFB".repeat(350_000);
        let (ca, private) = (json!({"ca.crt": large}), json!({"tls.crt": large, "tls.key": large}));
        for data in [ca, private] {
            let Served { name, trusted, leaf } = Served::of("tls", &json!({ "data": data }));
            assert_eq!((name.len(), trusted.map(|text| text.len()), leaf), (3, Some(64), None));
        }
    }
}
