//! What of the cluster needs the operator's access to a control plane, as the shared watches have it: provisioners that
//! refer to it, and the aggregated API. It keeps no object, and decides nothing about the access itself.
//!
//! A CoderWorkspaceProxy is not among them: it refers to no control plane, and brings the credentials that register it.

use super::access::Needs;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{Reduced, Reflected};
use crds::CoderProvisioner;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use serde::Deserialize as DeriveDeserialize;
use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// The group of the aggregated API.
const AGGREGATED: &str = "aggregation.coder.com";
/// Bytes of a name.
const LONGEST_NAME: usize = 253;

/// A provisioner, as far as it is looked at.
pub(crate) type Provisioner = Reduced<CoderProvisioner, Reference>;

/// The name of the control plane that a provisioner refers to; nothing if it cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Reference(Option<String>);

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(DeriveDeserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            control_plane_ref: ControlPlaneRef,
        }
        #[derive(DeriveDeserialize)]
        struct ControlPlaneRef {
            name: String,
        }
        // One bad object is not the end of its kind for everybody.
        let spec = serde_json::from_str(Box::<RawValue>::deserialize(deserializer)?.get());
        let name = |spec: Spec| spec.control_plane_ref.name.trim().to_owned();
        // A longer text names nothing.
        Ok(Self(spec.ok().map(name).map(|name| if name.len() > LONGEST_NAME { String::new() } else { name })))
    }
}

/// The watches that tell.
#[derive(Clone)]
pub(crate) struct Dependants {
    /// Every one.
    pub provisioners: Reflected<Provisioner>,
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
    pub(crate) fn of(&self, key: &ObjectKey) -> Needs {
        let may_mean =
            |provisioner: &Provisioner| provisioner.meta().namespace.as_ref() == Some(&key.namespace);
        self.seen_of(may_mean).of(key)
    }

    fn seen_of(&self, counts: impl Fn(&Provisioner) -> bool) -> Seen {
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
    fn note(&mut self, provisioner: &Provisioner) {
        let namespace = provisioner.meta().namespace.clone().unwrap_or_default();
        match provisioner.spec() {
            Some(Reference(Some(name))) => {
                _ = self.referred.insert(ObjectKey { namespace, name: name.clone() })
            }
            Some(Reference(None)) | None => _ = self.unreadable.insert(namespace),
        }
    }

    /// What needs the access to a control plane, besides its own spec.
    pub(crate) fn of(&self, key: &ObjectKey) -> Needs {
        Needs {
            known: self.known,
            license: false,
            provisioners: self.referred.contains(key) || self.unreadable.contains(&key.namespace),
            aggregated: self.aggregated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_str, from_value, json};

    fn provisioner(namespace: &str, spec: Value) -> Provisioner {
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
        let needs = |namespace: &str, name: &str| {
            let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
            seen.of(&key).provisioners
        };
        assert!(needs("team", "coder"));
        assert!(!needs("team", "other") && !needs("elsewhere", "coder"));
        let large = json!({ "controlPlaneRef": { "name": "x".repeat(100_000) }, "extraEnv": vec![""; 1000] });
        assert!(format!("{:?}", provisioner("team", large).spec()).len() < 300, "only the name is kept");
        assert!(needs("odd", "coder") && needs("bare", "coder"), "one that cannot be read may mean it");
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
