//! Finds the database's URL at the places a plan names, as the kubelet would for the pods.
//! It reads what is named and nothing else, and keeps nothing.

use crate::coderd::Egress;
use crate::coderd::database::{Database, DatabaseUrl, Error, Limits};
use crate::confidential::{Confidential, decoded};
use crate::control_plane_access::plan::{Absent, Kind, Place};
use crate::control_plane_access::secret_value::{Found, secret_value};
use crate::kubernetes::{CallError, Kube, Target};
use crds::CoderControlPlaneSpec;
use serde_json::Value;

/// What the places have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The URL.
    Url(Confidential<String>),
    /// Something the pods wait for is not there; what.
    Missing(String),
    /// None of them has it.
    Nowhere,
}

/// Looks at one place after the other; the first that has it counts.
pub(super) async fn find(kube: &Kube, namespace: &str, places: &[Place]) -> Result<Source, CallError> {
    for place in places {
        let object = match place {
            Place::Written(_) => None,
            Place::Referred { kind, name, .. } => kube.read(target(*kind, namespace, name)).await?,
        };
        if let Some(source) = at(place, object.as_ref()) {
            return Ok(source);
        }
    }
    Ok(Source::Nowhere)
}

/// Bytes of all authorities that are handed on: every public one there is takes a quarter of it.
const LARGEST_AUTHORITIES: usize = 1024 * 1024;

/// The URL with the authorities that coderd is told to trust, so that the operator trusts no less. They are read only where
/// a server has to prove itself by them. What cannot be read or does not fit may not be needed; TLS says so if it is.
pub(super) async fn trusting(
    kube: &Kube,
    namespace: &str,
    spec: &CoderControlPlaneSpec,
    url: DatabaseUrl,
) -> DatabaseUrl {
    if !url.verifies() {
        return url;
    }
    let mut pems = String::new();
    for cert in spec.certs.iter().flat_map(|certs| &certs.secrets) {
        let pem = secret_value(kube, namespace, cert.name.trim(), cert.key.trim()).await;
        let Some(pem) = pem.ok().and_then(Found::text) else { continue };
        if !add(&mut pems, pem.expose()) {
            let (secret, most) = (&cert.name, LARGEST_AUTHORITIES / 1024);
            tracing::warn!(
                secret,
                "the authorities in spec.certs.secrets are larger than {most} KiB; those from \
                this Secret on are not used for the database"
            );
            break;
        }
    }
    if pems.is_empty() { url } else { url.trusting(pems) }
}

/// Adds authorities to those there are, unless they become too large; whether it did.
fn add(pems: &mut String, pem: &str) -> bool {
    let fits = pems.len() + pem.len() <= LARGEST_AUTHORITIES;
    if fits {
        pems.push_str(pem);
        pems.push('\n');
    }
    fits
}

/// Logs in to the database. What stands in the way before its server has proven itself is told in the operator's log only.
pub(super) async fn connect(egress: &Egress, url: &DatabaseUrl) -> Result<Database, Error> {
    let database = Database::connect(url, &egress.resolve, Limits::default()).await;
    database.inspect_err(|error| {
        tracing::warn!(error = %error.detail(), "no connection to coderd's database");
    })
}

fn target<'a>(kind: Kind, namespace: &'a str, name: &'a str) -> Target<'a> {
    let (kind, plural) = match kind {
        Kind::Secret => ("Secret", "secrets"),
        Kind::ConfigMap => ("ConfigMap", "configmaps"),
    };
    Target { api_version: "v1", kind, plural, namespace, name }
}

/// What a place says, given the object it refers to; nothing if the next place counts.
fn at(place: &Place, object: Option<&Value>) -> Option<Source> {
    let (kind, name, key, absent) = match place {
        Place::Written(url) => return Some(Source::Url(url.clone())),
        Place::Referred { kind, name, key, absent } => (*kind, name, key, *absent),
    };
    let word = target(kind, "", name).kind;
    let missing = |what: String| Some(Source::Missing(what));
    let Some(object) = object else {
        return if absent == Absent::Skip { None } else { missing(format!("{word} {name} does not exist")) };
    };
    let value = object["data"].get(key).and_then(|value| match kind {
        Kind::Secret => decoded(value),
        Kind::ConfigMap => value.as_str().map(|text| Confidential::new(text.to_owned())),
    });
    match (value, absent) {
        // Set and empty is what coderd sees, too: no URL at all.
        (Some(url), _) if url.is_blank() => Some(Source::Nowhere),
        (Some(url), _) => Some(Source::Url(url.trimmed())),
        (None, Absent::Wait) => missing(format!("{word} {name} has no key {key}")),
        (None, Absent::WaitForObject | Absent::Skip) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(kind: Kind, absent: Absent) -> Place {
        Place::Referred { kind, name: "db".to_owned(), key: "url".to_owned(), absent }
    }

    #[test]
    fn authorities_are_gathered_up_to_a_size_and_those_that_fitted_are_used() {
        let mut pems = String::new();
        assert!(add(&mut pems, "a") && add(&mut pems, "b"));
        assert_eq!(pems, "a\nb\n");
        assert!(add(&mut pems, &"x".repeat(LARGEST_AUTHORITIES - 8)));
        let full = pems.clone();
        assert!(!add(&mut pems, "too much"));
        assert_eq!(pems, full, "what fitted is kept");
    }

    #[test]
    fn a_value_is_read_as_its_kind_keeps_it() {
        let url = |text: &str| Some(Source::Url(Confidential::new(text.to_owned())));
        let secret = json!({"data": {"url": "cG9zdGdyZXM6Ly9h"}});
        assert_eq!(at(&place(Kind::Secret, Absent::Wait), Some(&secret)), url("postgres://a"));
        let map = json!({"data": {"url": " postgres://a\n"}});
        assert_eq!(at(&place(Kind::ConfigMap, Absent::Skip), Some(&map)), url("postgres://a"));
        assert_eq!(at(&Place::Written(Confidential::new("x".to_owned())), None), url("x"));
        let empty = json!({"data": {"url": ""}});
        assert_eq!(at(&place(Kind::ConfigMap, Absent::Skip), Some(&empty)), Some(Source::Nowhere));
    }

    #[test]
    fn what_is_not_there_is_waited_for_as_the_pods_do() {
        let missing = |text: &str| Some(Source::Missing(text.to_owned()));
        let other = json!({"data": {"other": "eA=="}});
        let of = |absent, object: Option<&Value>| at(&place(Kind::Secret, absent), object);
        assert_eq!(of(Absent::Wait, None), missing("Secret db does not exist"));
        assert_eq!(of(Absent::Wait, Some(&other)), missing("Secret db has no key url"));
        assert_eq!(of(Absent::WaitForObject, None), missing("Secret db does not exist"));
        assert_eq!(of(Absent::WaitForObject, Some(&other)), None);
        assert_eq!((of(Absent::Skip, None), of(Absent::Skip, Some(&other))), (None, None));
    }
}
