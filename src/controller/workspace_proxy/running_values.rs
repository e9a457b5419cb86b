//! Decides what of a running Deployment stays where nothing better is known: what its pods run, whom they serve and which token
//! they use. Pure, and it never looks at a status.

use super::build::{CONTAINER, PRIMARY_URL, TOKEN};
use super::resolve::ProxyPods;
use super::way::Way;
use crate::controller::attached::attachment::{Attachment, SecretSource};
use crate::controller::workload::running;
use crds::CoderWorkspaceProxySpec;
use crds::well_known::annotation;
use serde_json::{Value, from_value, json};

/// The object with the replicas of the Deployment that runs where it names none, and with its image where it follows no control
/// plane: an upgrade of the operator is no upgrade of a proxy whose author named no image.
pub(super) fn with_running_values(object: &Value, deployment: Option<&Value>) -> Value {
    let Some(deployment) = deployment else { return object.clone() };
    let mut given = running::with_running_replicas(object, deployment);
    let spec: Option<CoderWorkspaceProxySpec> = from_value(object["spec"].clone()).ok();
    let follows = spec.as_ref().is_some_and(|spec| matches!(Way::of(spec), Way::ControlPlane(_)));
    let names_none = object.pointer("/spec/image").is_none_or(|image| image.is_null() || image == "");
    let image = running::container(deployment, CONTAINER).and_then(|container| container["image"].as_str());
    if let Some(image) = image.filter(|_| names_none && !follows) {
        given["spec"]["image"] = json!(image);
    }
    given
}

/// What the pods of a Deployment run with, as far as it is all there.
pub(super) fn proxy(deployment: &Value) -> Option<ProxyPods> {
    Some(ProxyPods { attachment: attachment(deployment)?, token: token(deployment)? })
}

/// What they have from their control plane.
pub(super) fn attachment(deployment: &Value) -> Option<Attachment> {
    Attachment::of_running(deployment, CONTAINER, PRIMARY_URL)
}

/// The token that they are started with, and where it is.
pub(super) fn token(deployment: &Value) -> Option<SecretSource> {
    SecretSource::of_running(deployment, CONTAINER, TOKEN, annotation::TOKEN_CHECKSUM)
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Proxy;
    use super::*;

    #[test]
    fn what_was_built_is_read_back() {
        for given in [Proxy::test(), Proxy::test().of_tls_control_plane(&["a", "b"])] {
            let resolved = given.resolved();
            assert_eq!(proxy(&given.deployment()), resolved.proxy);
            assert!(resolved.proxy.is_some());
        }
    }

    #[test]
    fn an_image_that_runs_stays_where_no_control_plane_is_followed() {
        let deployment = Proxy::test().with("image", json!("coder:v1")).deployment();
        let image = |spec: Value| {
            with_running_values(&json!({ "spec": spec }), Some(&deployment))["spec"]["image"].clone()
        };
        let given = json!({"proxySessionTokenSecretRef": {"name": "t"}});
        assert_eq!(image(given), "coder:v1");
        assert_eq!(image(json!({"controlPlaneRef": {"name": "coder"}})), Value::Null);
        assert_eq!(image(json!({"image": "mine"})), "mine");
    }
}
