//! Decides when a change exposes pods in another way, and requires the right to do that by hand.
//! Never requires any for the plain Service inside the cluster, which every object has.

use crds::well_known::default::{SERVICE_PORT, SERVICE_TYPE};
use serde_json::{Value, json};

use super::{AccessCheck, RequiredAccess};
use crate::field;

/// How pods are exposed: the field, and the API group and resource that does it.
struct Exposure {
    field: &'static str,
    group: &'static str,
    resource: &'static str,
    /// What there is of it in an object; `None` where they are not exposed by it.
    of: fn(&Value) -> Option<Value>,
}

const EXPOSURES: [Exposure; 3] = [
    Exposure { field: "spec.service", group: "", resource: "services", of: service },
    Exposure {
        field: "spec.expose.ingress",
        group: "networking.k8s.io",
        resource: "ingresses",
        of: |object| field::at(object, "spec.expose.ingress").cloned(),
    },
    Exposure {
        field: "spec.expose.gateway",
        group: "gateway.networking.k8s.io",
        resource: "httproutes",
        of: |object| field::at(object, "spec.expose.gateway").cloned(),
    },
];

/// A Service that is more than a ClusterIP, as it is completed; of a ClusterIP its annotations, by which controllers
/// expose it.
fn service(object: &Value) -> Option<Value> {
    let service = field::at(object, "spec.service")?;
    // An empty text has always meant the default.
    let inside = service.get("type").is_none_or(|kind| kind == SERVICE_TYPE || kind == "");
    let annotations = service.get("annotations").filter(|given| **given != json!({}));
    if inside {
        return annotations.cloned();
    }
    let port = service.get("port").cloned().unwrap_or(SERVICE_PORT.into());
    Some(json!({ "type": service.get("type"), "port": port, "annotations": annotations }))
}

/// Access to what exposes pods in another way than before.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Vec<RequiredAccess> {
    let altered = |exposure: &&Exposure| {
        let now = (exposure.of)(new);
        now.is_some() && now != old.and_then(exposure.of)
    };
    let access = |exposure: &Exposure| {
        let create = AccessCheck::new("create", exposure.group, exposure.resource, namespace);
        RequiredAccess::any(exposure.field, "CODER0510", vec![create])
    };
    EXPOSURES.iter().filter(altered).map(access).collect()
}
