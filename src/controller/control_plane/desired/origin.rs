//! Decides how children are recognised: their labels, the reference to their owner, the selector of the pods.
//! Never copies a label or an annotation from the control plane, because tools would take the children for theirs.

use std::collections::BTreeMap;

use crds::names::{self, control_plane};
use crds::well_known::{GROUP, MANAGER, VERSION, app_name, label};
use crds::{CoderControlPlane, CoderControlPlaneSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

/// Labels or annotations.
pub(super) type Texts = BTreeMap<String, String>;

/// The control plane that children come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    /// Absent for an object that is in no cluster yet: its children then name no owner.
    pub(super) uid: Option<&'a str>,
    pub(super) spec: &'a CoderControlPlaneSpec,
}

impl<'a> Origin<'a> {
    pub(super) fn of(control_plane: &'a CoderControlPlane) -> Self {
        let metadata = &control_plane.metadata;
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref(),
            spec: &control_plane.spec,
        }
    }

    /// The three labels of every child in the own namespace, which are also the selector of the pods.
    pub(super) fn labels(&self) -> Texts {
        texts([
            (label::NAME, app_name::CONTROL_PLANE),
            (label::INSTANCE, &names::instance_label(self.name)),
            (label::MANAGED_BY, MANAGER),
        ])
    }

    /// Labels somebody gives, with ours: ours win, because we find objects and pods by them.
    pub(super) fn labels_over(&self, given: &Texts) -> Texts {
        let mut labels = given.clone();
        labels.extend(self.labels());
        labels
    }

    pub(super) fn selector(&self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.labels()), ..Default::default() }
    }

    /// Metadata of a child in the own namespace: it goes when the control plane goes.
    pub(super) fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(self.labels()),
            owner_references: self.owner().map(|owner| vec![owner]),
            ..Default::default()
        }
    }

    /// Metadata of a child that is called like the control plane.
    pub(super) fn namesake(&self) -> ObjectMeta {
        self.metadata(control_plane::workload(self.name))
    }

    fn owner(&self) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "CoderControlPlane".to_owned(),
            name: self.name.to_owned(),
            uid: self.uid?.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        })
    }
}

/// The labels of every child in the own namespace.
pub fn labels(control_plane: &CoderControlPlane) -> BTreeMap<String, String> {
    Origin::of(control_plane).labels()
}

/// The selector of the pods as text, for `status.selector`.
pub fn selector(control_plane: &CoderControlPlane) -> String {
    let labels = Origin::of(control_plane).labels();
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Texts by key.
pub(super) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Texts {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use serde_json::json;

    #[test]
    fn every_child_at_home_is_owned_and_labelled() {
        let given = ControlPlane::test().with_everything();
        for child in given.children().all().filter(|child| child.namespace == "ns") {
            let metadata = &child.manifest["metadata"];
            let owner = json!([{
                "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder", "uid": "u-1",
                "controller": true, "blockOwnerDeletion": true,
            }]);
            assert_eq!(metadata["ownerReferences"], owner, "{}", child.kind);
            assert_eq!(metadata["namespace"], "ns");
            for (key, value) in
                [("name", "coder-control-plane"), ("instance", "coder"), ("managed-by", "coder-k8s")]
            {
                let label = &metadata["labels"][format!("app.kubernetes.io/{key}")];
                assert_eq!(label, value, "{}", child.kind);
            }
        }
    }

    #[test]
    fn an_object_without_a_uid_owns_nothing_yet() {
        let given = ControlPlane::test().without_uid();
        for child in given.children().all() {
            assert!(child.manifest["metadata"].get("ownerReferences").is_none());
        }
    }

    #[test]
    fn the_selector_in_text_form_has_the_three_labels() {
        let expected = "app.kubernetes.io/instance=coder,app.kubernetes.io/managed-by=coder-k8s,\
                        app.kubernetes.io/name=coder-control-plane";
        assert_eq!(super::selector(&ControlPlane::test().resolved()), expected);
    }

    #[test]
    fn labels_and_annotations_of_the_control_plane_are_not_copied() {
        let mut given = ControlPlane::test();
        given.object["metadata"]["labels"] = json!({"argocd.argoproj.io/instance": "app"});
        given.object["metadata"]["annotations"] = json!({"example.com/a": "b"});
        let text = format!("{:?}", given.children());
        assert!(!text.contains("argocd.argoproj.io/instance") && !text.contains("example.com/a"));
    }
}
