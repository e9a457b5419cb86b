//! Decides when pods have to be started again because their control plane serves with another CA: they read what they trust
//! once. A certificate that is renewed under the same CA changes nothing where its Secret holds that CA.

use crds::names::hash::hex32;
use serde_json::Value;

/// What pods trust of a Secret that their control plane serves with: its CA, or the certificate itself where there is none.
fn trusted(secret: &Value) -> Option<&str> {
    let text = |key: &str| secret["data"][key].as_str().filter(|encoded| !encoded.is_empty());
    text("ca.crt").or(text("tls.crt"))
}

/// What changes when pods have to trust something else; nothing while there is nothing to trust. By the names of the
/// Secrets, in the order of the spec.
pub(crate) fn checksum<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Option<String> {
    let all: Vec<String> = secrets
        .into_iter()
        .filter_map(|(name, secret)| Some(format!("{name} {}\n", trusted(secret)?)))
        .collect();
    (!all.is_empty()).then(|| hex32(all.concat().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn another_ca_changes_it_and_a_renewed_certificate_does_not() {
        let secret =
            |ca: Value, certificate: &str| json!({ "data": { "ca.crt": ca, "tls.crt": certificate } });
        let of = |secret: &Value| checksum([("tls", secret)]);
        let before = of(&secret(json!("Y2E="), "b25l"));
        assert!(before.is_some());
        assert_eq!(of(&secret(json!("Y2E="), "dHdv")), before, "renewed under the same CA");
        assert_ne!(of(&secret(json!("Y2Ey"), "b25l")), before, "another CA");
        let alone = |certificate: &str| of(&secret(Value::Null, certificate));
        assert_ne!(alone("b25l"), alone("dHdv"), "one that is trusted itself");
        assert_eq!((of(&json!({})), checksum([])), (None, None), "nothing to trust");
        let (one, two) = (secret(json!("Y2E="), ""), json!({}));
        assert_eq!(checksum([("a", &one), ("b", &two)]), checksum([("a", &one)]));
        assert_ne!(checksum([("a", &one)]), checksum([("b", &one)]));
    }
}
