//! What coderd serves with, as the Secrets of its own spec tell: certificates and CAs, of a bounded size.
//! It never decides whether a certificate fits: the TLS of the client does.

use crate::coderd::LARGEST_PEM;
use crate::confidential::decoded;
use crate::kubernetes::{Kube, Target};
use crds::CoderControlPlaneSpec;
use serde_json::Value;

/// By what coderd's certificate is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    /// The certificates it is configured with, as PEM, the leaf of each first.
    pub certificates: Vec<String>,
    /// CAs besides the public ones, as PEM.
    pub authorities: Option<String>,
}

/// Reads the Secrets of `spec.tls`, each once; or which of them cannot be used.
pub(crate) async fn read(
    kube: &Kube,
    namespace: &str,
    spec: &CoderControlPlaneSpec,
) -> Result<Trust, String> {
    let names = spec.tls.iter().flat_map(|tls| &tls.secret_names);
    let mut trust = Trust::default();
    for name in names.map(|name| name.trim()).filter(|name| !name.is_empty()).take(MOST_CERTIFICATES) {
        let target = Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name };
        match kube.read(target).await {
            Ok(Some(secret)) => trust_too(&mut trust, name, &secret)?,
            Ok(None) => {}
            // Without it the handshake fails, and the status says so; the log says why.
            Err(error) => tracing::warn!(%error, "a certificate of coderd could not be read"),
        }
    }
    Ok(trust)
}

/// Secrets with certificates of coderd that are read for each question. It has one for each of its names, and answers us
/// with the first that fits.
const MOST_CERTIFICATES: usize = 8;

/// Adds what a Secret with a certificate of coderd holds. What is too large is not even decoded: its author decides how
/// much there is, and we pay for it.
fn trust_too(trust: &mut Trust, name: &str, secret: &Value) -> Result<(), String> {
    let pem = |key: &str| -> Result<Option<String>, String> {
        let value = &secret["data"][key];
        if value.as_str().is_some_and(|encoded| encoded.len() / 4 * 3 > LARGEST_PEM + 3) {
            let most = LARGEST_PEM / 1024;
            return Err(format!(
                "{key} of Secret {name} in spec.tls.secretNames is larger than {most} KiB; put only the certificates \
                 that coderd needs into it"
            ));
        }
        Ok(decoded(value).filter(|pem| !pem.is_blank()).map(|pem| pem.expose().clone()))
    };
    let (certificate, authorities) = (pem("tls.crt")?, pem("ca.crt")?);
    trust.certificates.extend(certificate);
    if let Some(more) = authorities {
        trust.authorities =
            Some(trust.authorities.take().map_or(more.clone(), |all| format!("{all}\n{more}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(certificate: &str, authority: &str) -> Value {
        let encoded = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
        json!({ "data": { "tls.crt": encoded(certificate), "ca.crt": encoded(authority) } })
    }

    #[test]
    fn certificates_of_a_sound_size_are_read_and_larger_ones_are_told_with_their_secret() {
        let mut trust = Trust::default();
        trust_too(&mut trust, "one", &secret("a", " ")).unwrap();
        trust_too(&mut trust, "two", &secret("b", "c")).unwrap();
        trust_too(&mut trust, "three", &secret("", "d")).unwrap();
        let all = Trust {
            certificates: vec!["a".to_owned(), "b".to_owned()],
            authorities: Some("c\nd".to_owned()),
        };
        assert_eq!(trust, all);
        let large = "x".repeat(LARGEST_PEM + 10);
        for (key, large) in [("tls.crt", secret(&large, "")), ("ca.crt", secret("", &large))] {
            let why = trust_too(&mut trust, "mine", &large).unwrap_err();
            assert!(why.starts_with(&format!("{key} of Secret mine ")) && why.len() <= 300, "{why}");
        }
        assert_eq!(trust, all, "nothing of them is kept");
        assert!(trust_too(&mut trust, "full", &secret(&"x".repeat(LARGEST_PEM), "")).is_ok());
    }
}
