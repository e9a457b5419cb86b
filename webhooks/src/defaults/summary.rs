//! Decides what `status.resolved` says: the values in force where the spec is silent.
//! Never says more than can be known from the object: what an environment source holds, only the reconciler knows.

use crds::CoderControlPlane;
use serde_json::{Map, Value, json};

use super::{Config, access_url, resolved};
use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;

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
            ("serviceAccountName", "spec.serviceAccount.name"),
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
            ("serviceAccountName", "spec.serviceAccount.name"),
            ("accessURL", "spec.accessURL"),
            ("wildcardAccessURL", "spec.wildcardAccessURL"),
            ("primaryAccessURL", "spec.primaryAccessURL"),
        ],
    };
    let mut summary: Map<String, Value> = fields
        .iter()
        .filter_map(|(name, path)| Some(((*name).to_owned(), field::at(&complete, path)?.clone())))
        .collect();
    let computed = match kind {
        Kind::ControlPlane => {
            // What cannot be read has no address either.
            let control_plane = serde_json::from_value::<CoderControlPlane>(complete.clone()).ok();
            let url = control_plane.and_then(|one| access_url(&one, &config.cluster_domain));
            vec![("accessURL", url)]
        }
        Kind::WorkspaceProxy => {
            let text = |path: &str| field::text_at(&complete, path).map(str::to_owned);
            let registration = Registration::of(kind, &complete);
            let secret =
                registration.map_or("spec.proxySessionTokenSecretRef.name", |made| made.token_secret);
            let proxy = registration.and_then(|made| text(made.proxy_name));
            vec![("proxyName", proxy), ("tokenSecretName", text(secret))]
        }
        Kind::Provisioner => Vec::new(),
    };
    let computed = computed.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    summary.extend(computed);
    Value::Object(summary)
}
