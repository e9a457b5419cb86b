//! What of the cluster needs the operator's access to a control plane, as the shared watches have it: provisioners that
//! refer to it, and the aggregated API. It keeps no object, and decides nothing about the access itself.
//!
//! A CoderWorkspaceProxy is not among them: it refers to no control plane, and brings the credentials that register it.

use super::access::Needs;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{Kept, Reflected};
use crds::CoderProvisioner;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use serde::Deserialize as DeriveDeserialize;
use std::collections::BTreeSet;

/// The group of the aggregated API.
const AGGREGATED: &str = "aggregation.coder.com";
/// Bytes of a name.
const LONGEST_NAME: usize = 253;

/// The name of the control plane that a provisioner refers to; nothing if it cannot be read.
fn reference(provisioner: &Kept<CoderProvisioner>) -> Option<String> {
    #[derive(DeriveDeserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        control_plane_ref: ControlPlaneRef,
    }
    #[derive(DeriveDeserialize)]
    struct ControlPlaneRef {
        name: String,
    }
    let spec: Spec = provisioner.spec()?.ok()?;
    let name = spec.control_plane_ref.name.trim();
    // A longer text names nothing.
    Some(if name.len() > LONGEST_NAME { String::new() } else { name.to_owned() })
}

/// The uids of the control planes that a provisioner has recorded keys in; nothing if its status is longer than is kept.
fn recorded(provisioner: &Kept<CoderProvisioner>) -> Option<Vec<String>> {
    let object = provisioner.object()?;
    let key = &object["status"]["key"];
    let retiring = key["retiring"].as_array().into_iter().flatten();
    let entries = [&key["current"], &key["pending"]].into_iter().chain(retiring);
    Some(entries.filter_map(|entry| entry["controlPlaneUID"].as_str().map(str::to_owned)).collect())
}

/// The watches that tell.
#[derive(Clone)]
pub(crate) struct Dependants {
    /// Every one.
    pub provisioners: Reflected<Kept<CoderProvisioner>>,
    /// Those that are labelled as ours.
    pub api_services: Reflected<APIService>,
}

/// What they told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether every watch has listed what there is.
    known: bool,
    /// The control planes that provisioners refer to.
    referred: BTreeSet<ObjectKey>,
    /// The uids of control planes that provisioners have recorded keys in: those must be deleted there one day. What a status
    /// says can keep an access that its namespace has anyway, and nothing else.
    recorded: BTreeSet<String>,
    /// Namespaces with a provisioner whose status is not kept, and may say that of any control plane there.
    unkept: BTreeSet<String>,
    /// Namespaces with a provisioner that our types cannot read, which may refer to any control plane there.
    unreadable: BTreeSet<String>,
    aggregated: bool,
}

impl Dependants {
    /// What there is now.
    pub(crate) fn seen(&self) -> Seen {
        self.seen_of(|_| true)
    }

    /// What needs the access to a control plane, besides its own spec. Only provisioners that can mean it are read: this is
    /// asked in every reconcile.
    pub(crate) fn of(&self, key: &ObjectKey, uid: &str) -> Needs {
        let may_mean = |provisioner: &Kept<CoderProvisioner>| {
            provisioner.meta().namespace.as_ref() == Some(&key.namespace)
        };
        self.seen_of(may_mean).of(key, uid)
    }

    fn seen_of(&self, counts: impl Fn(&Kept<CoderProvisioner>) -> bool) -> Seen {
        let mut seen = Seen {
            known: self.provisioners.is_synced() && self.api_services.is_synced(),
            aggregated: self.api_services.all().iter().any(|service| is_aggregated(service)),
            ..Seen::default()
        };
        let provisioners = self.provisioners.all();
        provisioners.iter().filter(|one| counts(one)).for_each(|one| seen.note(one));
        seen
    }

    /// Returns after the next change.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = self.provisioners.changed() => {}
            () = self.api_services.changed() => {}
        }
    }
}

fn is_aggregated(service: &APIService) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.group.as_deref() == Some(AGGREGATED))
}

impl Seen {
    fn note(&mut self, provisioner: &Kept<CoderProvisioner>) {
        let namespace = provisioner.meta().namespace.clone().unwrap_or_default();
        match reference(provisioner) {
            Some(name) => _ = self.referred.insert(ObjectKey { namespace: namespace.clone(), name }),
            None => _ = self.unreadable.insert(namespace.clone()),
        }
        match recorded(provisioner) {
            Some(uids) => self.recorded.extend(uids.into_iter().map(|uid| format!("{namespace}/{uid}"))),
            None => _ = self.unkept.insert(namespace),
        }
    }

    /// What needs the access to a control plane of this uid, besides its own spec.
    pub(crate) fn of(&self, key: &ObjectKey, uid: &str) -> Needs {
        let is_recorded = self.recorded.contains(&format!("{}/{uid}", key.namespace));
        let recorded = is_recorded || self.unkept.contains(&key.namespace);
        let is_referred = self.referred.contains(key) || self.unreadable.contains(&key.namespace);
        Needs {
            known: self.known,
            license: false,
            provisioners: is_referred,
            recorded,
            aggregated: self.aggregated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_str, from_value, json};

    fn provisioner(namespace: &str, spec: Value) -> Kept<CoderProvisioner> {
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "builders", "namespace": namespace }, "spec": spec });
        from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn a_provisioner_needs_the_control_plane_of_its_namespace_that_it_names() {
        let mut seen = Seen { known: true, ..Seen::default() };
        seen.note(&provisioner("team", json!({ "controlPlaneRef": { "name": " coder " } })));
        seen.note(&provisioner("odd", json!({ "controlPlaneRef": 7 })));
        seen.note(&provisioner("bare", Value::Null));
        let needs = |seen: &Seen, namespace: &str, name: &str| {
            let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
            seen.of(&key, "u1").provisioners
        };
        assert!(needs(&seen, "team", "coder"));
        assert!(!needs(&seen, "team", "other") && !needs(&seen, "elsewhere", "coder"));
        let moved = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "moved", "namespace": "left" }, "spec": { "controlPlaneRef": { "name": "new" } },
            "status": { "key": { "retiring": [{ "name": "k", "controlPlaneUID": "u1" }] } } });
        assert!(!needs(&seen, "left", "old"));
        seen.note(&from_str(&moved.to_string()).unwrap());
        let key = ObjectKey { namespace: "left".to_owned(), name: "old".to_owned() };
        assert!(seen.of(&key, "u1").recorded, "a key of it is still to be deleted there");
        assert!(!seen.of(&key, "u1").provisioners, "which nobody but a status says");
        assert!(!seen.of(&key, "u2").recorded);
        let mut long = moved;
        long["status"]["key"]["retiring"][0]["name"] = json!("x".repeat(100_000));
        seen.note(&from_str(&long.to_string()).unwrap());
        assert!(seen.of(&key, "u2").recorded, "one that is not kept may say so of any");
        let elsewhere = ObjectKey { namespace: "team".to_owned(), ..key };
        assert!(!seen.of(&elsewhere, "u2").recorded);
        let large = json!({ "controlPlaneRef": { "name": "x".repeat(100_000) } });
        assert_eq!(reference(&provisioner("team", large)).as_deref(), Some(""), "no object has such a name");
        assert!(
            needs(&seen, "odd", "coder") && needs(&seen, "bare", "coder"),
            "one that cannot be read may mean it"
        );
    }

    #[test]
    fn only_the_aggregated_api_of_ours_counts() {
        let service = |spec: Value| -> APIService { from_value(json!({ "spec": spec })).unwrap() };
        let of = |group: &str| json!({ "group": group, "groupPriorityMinimum": 1, "versionPriority": 1 });
        assert!(is_aggregated(&service(of("aggregation.coder.com"))));
        assert!(!is_aggregated(&service(of("mirror.coder.com"))));
        assert!(!is_aggregated(&APIService::default()));
    }
}
