//! Decides when a change makes pods reachable in another way, and asks for the right to do that by hand.
//! Never asks for the plain Service inside the cluster, which every object has.

use crds::well_known::default::{SERVICE_PORT, SERVICE_TYPE};
use serde_json::{Value, json};

use super::{Access, AccessCheck};
use crate::field;

/// A way in: its fields, and the API group and resource it is made of.
struct Way {
    field: &'static str,
    group: &'static str,
    resource: &'static str,
    /// What there is of it in an object; `None` where there is no such way.
    of: fn(&Value) -> Option<Value>,
}

const WAYS: [Way; 3] = [
    Way { field: "spec.service", group: "", resource: "services", of: service },
    Way {
        field: "spec.expose.ingress",
        group: "networking.k8s.io",
        resource: "ingresses",
        of: |object| field::at(object, "spec.expose.ingress").cloned(),
    },
    Way {
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

/// The ways in that the change adds or alters.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Vec<Access> {
    let altered = |way: &&Way| {
        let now = (way.of)(new);
        now.is_some() && now != old.and_then(way.of)
    };
    let access = |way: &Way| {
        let create = AccessCheck::new("create", way.group, way.resource, namespace);
        Access::any(way.field, "CODER0510", vec![create])
    };
    WAYS.iter().filter(altered).map(access).collect()
}
