//! Decides whether a Service leads to the pods of a control plane: whoever answers elsewhere is not its coderd, so that
//! above all no token is sent there. Pure: it looks at one object.

use crate::kubernetes::is_controlled_by;
use crds::CoderControlPlane;
use crds::names::child_labels;
use crds::names::control_plane::workload;
use crds::well_known::app_name;
use serde_json::{Value, json};
use std::fmt;

/// Why no token goes through a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is none.
    Missing,
    /// It is somebody else's.
    NotOurs,
    /// It is ours and leads elsewhere.
    Changed,
}

/// The Service of a control plane, as it was just read, if a token may go through it.
pub(crate) fn trusted<'a>(
    service: Option<&'a Value>,
    control_plane: &CoderControlPlane,
) -> Result<&'a Value, Refusal> {
    let metadata = &control_plane.metadata;
    let service = service.ok_or(Refusal::Missing)?;
    if !metadata.uid.as_ref().is_some_and(|uid| is_controlled_by(service, uid)) {
        return Err(Refusal::NotOurs);
    }
    if leads_to_pods(service, control_plane) { Ok(service) } else { Err(Refusal::Changed) }
}

/// Whether a Service of ours leads to the pods of a control plane and nowhere else.
pub(crate) fn leads_to_pods(service: &Value, control_plane: &CoderControlPlane) -> bool {
    let name = control_plane.metadata.name.as_deref().unwrap_or_default();
    leads_to(service, &json!(child_labels(app_name::CONTROL_PLANE, name)))
}

/// The name of the Service of a control plane.
pub(crate) fn name(control_plane: &CoderControlPlane) -> &str {
    workload(control_plane.metadata.name.as_deref().unwrap_or_default())
}

/// What is said of a Service that is refused, and what to do.
pub(crate) struct Told<'a>(pub Refusal, pub &'a str);

impl fmt::Display for Told<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(refusal, name) = self;
        match refusal {
            Refusal::Missing => {
                write!(out, "there is no Service {name} yet; the control plane of this name says why")
            }
            Refusal::NotOurs => write!(
                out,
                "coderd is not contacted and no token is sent: Service {name} does not belong to the control plane of \
                 this name; delete that Service, or give the control plane another name"
            ),
            Refusal::Changed => write!(
                out,
                "coderd is not contacted and no token is sent: the type or selector of Service {name} was changed; \
                 revert that, or set spec.suspend of the CoderControlPlane to false so that the operator does"
            ),
        }
    }
}

/// Whether a Service leads to pods with these labels and nowhere else. Whoever may change Services could send us, and our
/// token with us, to somebody else.
fn leads_to(service: &Value, labels: &Value) -> bool {
    let spec = &service["spec"];
    let inside = ["ClusterIP", "NodePort", "LoadBalancer"].iter().any(|kind| spec["type"] == *kind);
    // An external name is only heeded with that type, and stays behind when ours is put back.
    inside && spec["selector"] == *labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    #[test]
    fn a_token_goes_through_the_service_of_the_very_object_only() {
        let plane = |uid: Value| -> CoderControlPlane {
            from_value(
                json!({ "metadata": { "name": "coder", "namespace": "team", "uid": uid }, "spec": {} }),
            )
            .unwrap()
        };
        let labels = child_labels(app_name::CONTROL_PLANE, "coder");
        let service = |uid: &str, selector: Value| {
            json!({ "metadata": { "ownerReferences": [{ "uid": uid, "controller": true }] },
                "spec": { "type": "ClusterIP", "selector": selector } })
        };
        let ours = service("u1", json!(labels));
        assert_eq!(trusted(Some(&ours), &plane(json!("u1"))), Ok(&ours));
        assert_eq!(trusted(None, &plane(json!("u1"))), Err(Refusal::Missing));
        assert_eq!(trusted(Some(&ours), &plane(json!("u2"))), Err(Refusal::NotOurs), "another of this name");
        assert_eq!(trusted(Some(&ours), &plane(Value::Null)), Err(Refusal::NotOurs));
        let elsewhere = service("u1", json!({ "app": "evil" }));
        assert_eq!(trusted(Some(&elsewhere), &plane(json!("u1"))), Err(Refusal::Changed));
        for refusal in [Refusal::Missing, Refusal::NotOurs, Refusal::Changed] {
            let told = Told(refusal, "coder").to_string();
            assert!(told.contains("Service coder") && told.contains("; ") && told.len() < 300, "{told}");
        }
    }

    #[test]
    fn only_a_service_that_leads_to_our_pods_is_asked() {
        let labels = json!({ "app": "coder" });
        let leads = |spec: Value| leads_to(&json!({ "spec": spec }), &labels);
        for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
            assert!(leads(json!({ "type": kind, "selector": { "app": "coder" } })), "{kind}");
            let mended =
                json!({ "type": kind, "externalName": "evil.example.com", "selector": { "app": "coder" } });
            assert!(leads(mended), "{kind}: the API server leaves the name behind");
        }
        for attack in [
            json!({ "type": "ExternalName", "externalName": "evil.example.com", "selector": { "app": "coder" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "evil" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "coder", "evil": "yes" } }),
            json!({ "type": "ClusterIP", "selector": {} }),
            json!({ "type": "ClusterIP" }),
            json!({ "selector": { "app": "coder" } }),
        ] {
            assert!(!leads(attack.clone()), "{attack}");
        }
    }
}
