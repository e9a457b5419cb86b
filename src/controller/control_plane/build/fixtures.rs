//! Control planes for tests, built by sentences: `ControlPlane::test().with_tls(&["a"]).on_port(8080)`.
//! They are resolved as the reconciler does it, by the function of admission, before children are made of them.

use crds::CoderControlPlane;
use serde_json::{Value, json};
use webhooks::{Config, Kind};

use super::super::resolve::{Facts, ResolvedControlPlane, resolve};
use super::{Children, build};

/// A manifest and what the cluster would say about it.
#[derive(Clone)]
pub(in super::super) struct ControlPlane {
    pub(in super::super) object: Value,
    checksum: Option<String>,
    access_url_from_env_from: bool,
}

impl ControlPlane {
    /// `coder` in namespace `ns`, with uid `u-1` and an empty spec.
    pub(in super::super) fn test() -> Self {
        let metadata = json!({"name": "coder", "namespace": "ns", "uid": "u-1"});
        Self::from(json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": metadata, "spec": {},
        }))
    }

    pub(super) fn from(object: Value) -> Self {
        Self { object, checksum: None, access_url_from_env_from: false }
    }

    /// With a field of the spec; what an earlier sentence said about it is forgotten, but for maps.
    pub(in super::super) fn with(mut self, field: &str, value: Value) -> Self {
        match (&mut self.object["spec"][field], value) {
            (Value::Object(there), Value::Object(more)) => there.extend(more),
            (there, value) => *there = value,
        }
        self
    }

    pub(super) fn with_tls(self, secrets: &[&str]) -> Self {
        self.with("tls", json!({ "secretNames": secrets }))
    }

    pub(super) fn on_port(self, port: i32) -> Self {
        self.with("service", json!({ "port": port }))
    }

    pub(super) fn in_namespace(mut self, namespace: &str) -> Self {
        self.object["metadata"]["namespace"] = json!(namespace);
        self
    }

    pub(super) fn without_uid(mut self) -> Self {
        self.object["metadata"].as_object_mut().unwrap().remove("uid");
        self
    }

    pub(in super::super) fn with_checksum(mut self, checksum: &str) -> Self {
        self.checksum = Some(checksum.to_owned());
        self
    }

    pub(super) fn with_access_url_from_env_from(mut self) -> Self {
        self.access_url_from_env_from = true;
        self
    }

    /// The spec of the sample that uses every field, but for the Gateway.
    pub(in super::super) fn with_everything(self) -> Self {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize/samples/codercontrolplane-everything.yaml");
        let sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        self.with_spec_of(&sample)
    }

    /// The spec of another manifest.
    pub(in super::super) fn with_spec_of(mut self, sample: &Value) -> Self {
        self.object["spec"] = sample["spec"].clone();
        self
    }

    pub(in super::super) fn complete(&self) -> CoderControlPlane {
        let complete = webhooks::resolved(Kind::ControlPlane, &self.object, &Config::default());
        serde_json::from_value(complete).unwrap()
    }

    pub(in super::super) fn resolved(&self) -> ResolvedControlPlane {
        let facts = Facts {
            consumed_checksum: self.checksum.as_deref(),
            access_url_from_env_from: self.access_url_from_env_from,
            cluster_domain: &Config::default().cluster_domain,
        };
        resolve(&self.complete(), facts)
    }

    pub(in super::super) fn children(&self) -> Children {
        build(&self.resolved())
    }

    /// The spec of the pods.
    pub(super) fn pod(&self) -> Value {
        self.children().deployment.manifest["spec"]["template"]["spec"].clone()
    }

    /// The container of coderd.
    pub(super) fn container(&self) -> Value {
        self.pod()["containers"][0].clone()
    }
}
