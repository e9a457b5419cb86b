//! Decides what `status.resolved` says: the values in force where the spec is silent.
//! Never says more than can be known from the object: what an environment source holds, only the reconciler knows.

use serde_json::{Map, Value, json};

use super::{Config, resolved};
use crate::field;
use crate::kind::Kind;

/// `status.resolved` of an object, in the shape its kind gives it. The address a control plane is told about is left
/// out where `extraEnv` gives one or the namespace is not known; the reconciler also leaves it out where `envFrom`
/// turns out to give one.
pub fn status_resolved(kind: Kind, object: &Value, config: &Config) -> Value {
    let complete = resolved(kind, object, config);
    let fields: &[(&str, &str)] = match kind {
        Kind::ControlPlane => &[
            ("image", "spec.image"),
            ("replicas", "spec.replicas"),
            ("serviceType", "spec.service.type"),
            ("servicePort", "spec.service.port"),
            ("serviceAccountName", "spec.serviceAccount.name"),
            ("terminationGracePeriodSeconds", "spec.terminationGracePeriodSeconds"),
        ],
        Kind::Provisioner => &[
            ("image", "spec.image"),
            ("replicas", "spec.replicas"),
            ("organizationName", "spec.organizationName"),
            ("keyName", "spec.key.name"),
            ("keySecretName", "spec.key.secretName"),
            ("keySecretKey", "spec.key.secretKey"),
            ("terminationGracePeriodSeconds", "spec.terminationGracePeriodSeconds"),
        ],
        Kind::WorkspaceProxy => &[
            ("image", "spec.image"),
            ("replicas", "spec.replicas"),
            ("serviceType", "spec.service.type"),
            ("servicePort", "spec.service.port"),
            ("primaryAccessURL", "spec.primaryAccessURL"),
            ("proxyName", "spec.bootstrap.proxyName"),
        ],
    };
    let mut summary: Map<String, Value> = fields
        .iter()
        .filter_map(|(name, path)| Some(((*name).to_owned(), field::at(&complete, path)?.clone())))
        .collect();
    let computed = match kind {
        Kind::ControlPlane => access_url(&complete).map(|url| ("accessURL", url)),
        Kind::WorkspaceProxy => token_secret(&complete).map(|name| ("tokenSecretName", name.to_owned())),
        Kind::Provisioner => None,
    };
    summary.extend(computed.map(|(name, value)| (name.to_owned(), json!(value))));
    Value::Object(summary)
}

/// `CODER_ACCESS_URL` as the operator sets it.
fn access_url(complete: &Value) -> Option<String> {
    let wanted = field::at(complete, "spec.envUseClusterAccessURL") == Some(&json!(true));
    let named = |variable: &&Value| variable.get("name") == Some(&json!("CODER_ACCESS_URL"));
    if !wanted || field::items_at(complete, "spec.extraEnv").iter().any(|variable| named(&variable)) {
        return None;
    }
    let (name, namespace) =
        (field::text_at(complete, "metadata.name")?, field::text_at(complete, "metadata.namespace")?);
    let host = format!("{name}.{namespace}.svc.cluster.local");
    if !field::items_at(complete, "spec.tls.secretNames").is_empty() {
        return Some(format!("https://{host}"));
    }
    match field::at(complete, "spec.service.port")?.as_i64()? {
        80 => Some(format!("http://{host}")),
        port => Some(format!("http://{host}:{port}")),
    }
}

/// Secret the proxy's token is read from.
fn token_secret(complete: &Value) -> Option<&str> {
    let path = match field::at(complete, "spec.bootstrap") {
        Some(_) => "spec.bootstrap.generatedTokenSecretName",
        None => "spec.proxySessionTokenSecretRef.name",
    };
    field::text_at(complete, path)
}
