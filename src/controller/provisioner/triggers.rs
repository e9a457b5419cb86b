//! Decides which provisioners to look at when something else changed: a child, their key's Secret, a Secret or ConfigMap they name, their
//! control plane or its Service, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::build;
use crate::controller::attached::triggers::{Concerned, References, read};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::workload::consumed::Consumed;
use crate::kubernetes::Kept;
use crds::CoderProvisioner;
use kube::Resource;
use kube::core::ObjectMeta;
use std::collections::BTreeSet;

impl Concerned for CoderProvisioner {
    fn names_secret(provisioner: &Kept<Self>, secret: &ObjectMeta) -> bool {
        let here = provisioner.meta().namespace == secret.namespace;
        let name = secret.name.as_deref().unwrap_or_default();
        let is_named =
            |spec: References| spec.bootstrap?.credentials_secret_ref?.name.filter(|one| one.trim() == name);
        here && provisioner.mentions(name) && read(provisioner).and_then(is_named).is_some()
    }

    fn refers_to(provisioner: &Kept<Self>, control_planes: &BTreeSet<ObjectKey>) -> bool {
        let Some(namespace) = &provisioner.meta().namespace else { return false };
        let is_here = control_planes.iter().any(|one| one.namespace == *namespace);
        let name = is_here.then(|| read::<_, References>(provisioner)?.control_plane_ref?.name).flatten();
        let key = |name: String| ObjectKey { namespace: namespace.clone(), name: name.trim().to_owned() };
        name.is_some_and(|name| control_planes.contains(&key(name)))
    }

    fn consumed(complete: &Self) -> Vec<Consumed> {
        build::consumed(complete)
    }

    fn field_asking_for(kind: ChildKind) -> Option<&'static str> {
        (kind == ChildKind::PodMonitor).then_some("podMonitor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::attached::triggers::{controller_of, refers};
    use crate::controller::workload::consumed::Source;
    use crds::CoderControlPlane;
    use serde_json::{from_str, from_value, json};

    #[test]
    fn a_child_or_secret_leads_to_the_provisioner_that_controls_it() {
        let of = |kind: &str, controller: bool| {
            let owners = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": kind, "name": "builders", "uid": "u",
                "controller": controller }]);
            let metadata: ObjectMeta =
                from_value(json!({ "name": "x", "namespace": "team", "ownerReferences": owners })).unwrap();
            assert_eq!(
                controller_of::<CoderControlPlane>(&metadata).is_some(),
                controller && kind == "CoderControlPlane"
            );
            controller_of::<CoderProvisioner>(&metadata)
        };
        let builders = ObjectKey { namespace: "team".to_owned(), name: "builders".to_owned() };
        assert_eq!(of("CoderProvisioner", true), Some(builders));
        assert_eq!((of("CoderProvisioner", false), of("CoderControlPlane", true)), (None, None));
    }

    #[test]
    fn a_control_plane_concerns_whoever_refers_to_it_in_its_namespace() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" },
            "spec": { "controlPlaneRef": { "name": " coder " }, "organizationName": "other" } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let key = |namespace: &str, name: &str| {
            BTreeSet::from([ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() }])
        };
        assert!(CoderProvisioner::refers_to(&provisioner, &key("team", "coder")));
        assert!(!CoderProvisioner::refers_to(&provisioner, &key("elsewhere", "coder")));
        assert!(
            !CoderProvisioner::refers_to(&provisioner, &key("team", "other")),
            "it is mentioned, and not referred to"
        );
    }

    #[test]
    fn a_secret_concerns_whoever_names_it_in_its_namespace() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" },
            "spec": { "controlPlaneRef": { "name": "coder" }, "bootstrap": { "credentialsSecretRef": { "name": "token" } } } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let secret = |namespace: &str, name: &str| -> ObjectMeta {
            from_value(json!({ "name": name, "namespace": namespace })).unwrap()
        };
        assert!(CoderProvisioner::names_secret(&provisioner, &secret("team", "token")));
        assert!(!CoderProvisioner::names_secret(&provisioner, &secret("other", "token")));
        assert!(!CoderProvisioner::names_secret(&provisioner, &secret("team", "else")));
    }

    #[test]
    fn a_control_plane_concerns_the_provisioners_that_refer_to_it() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" }, "spec": { "controlPlaneRef": { "name": "coder" } } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let key = |namespace: &str| {
            BTreeSet::from([ObjectKey { namespace: namespace.to_owned(), name: "coder".to_owned() }])
        };
        assert!(
            CoderProvisioner::refers_to(&provisioner, &key("team"))
                && !CoderProvisioner::refers_to(&provisioner, &key("other"))
        );
    }

    /// Each provisioner mentions all of them. Were every pair read, this would take minutes.
    #[test]
    fn a_certificate_of_many_control_planes_reads_each_provisioner_once() {
        let names: Vec<String> = (0..300).map(|number| format!("plane-{number}")).collect();
        let padding = "x".repeat(100_000);
        let provisioner = |name: &String| -> Kept<CoderProvisioner> {
            let text = json!({ "metadata": { "name": name, "namespace": "team" },
                "spec": { "extraArgs": names, "tags": { "a": padding }, "controlPlaneRef": { "name": name } } });
            from_str(&text.to_string()).unwrap()
        };
        let key = |name: &String| ObjectKey { namespace: "team".to_owned(), name: name.clone() };
        let serving: BTreeSet<ObjectKey> = names.iter().map(key).collect();
        let concerned =
            names.iter().filter(|name| CoderProvisioner::refers_to(&provisioner(name), &serving)).count();
        assert_eq!(concerned, 300);
    }

    #[test]
    fn what_daemons_read_concerns_their_provisioner_in_its_namespace() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" },
            "spec": { "controlPlaneRef": { "name": "coder" }, "envFrom": [{ "configMapRef": { "name": "settings" } }], "extraArgs": ["other"] } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let concerned = |source: Source, namespace: &str, name: &str| {
            let changed = from_value(json!({ "name": name, "namespace": namespace })).unwrap();
            refers(&provisioner, source, &changed)
        };
        assert!(concerned(Source::ConfigMap, "team", "settings"));
        assert!(!concerned(Source::Secret, "team", "settings"), "it is no Secret");
        assert!(!concerned(Source::ConfigMap, "elsewhere", "settings"));
        assert!(!concerned(Source::ConfigMap, "team", "other"), "a word of the spec");
    }
}
