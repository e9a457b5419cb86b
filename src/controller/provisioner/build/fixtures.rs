//! Provisioners for tests, built by sentences: `Provisioner::test().of_tls_control_plane(&["a"]).with("replicas", json!(3))`.
//! They are resolved as the reconciler does it, by the function of admission, before children are made of them.

use super::super::resolve::{Facts, ResolvedProvisioner, resolve};
use super::super::running_values;
use super::{Children, build};
use crate::controller::attached::fixtures::{Fixture, TestedKind};
use crds::CoderProvisioner;
use serde_json::{Value, json};

/// A manifest and what the cluster would say about it.
pub(in super::super) type Provisioner = Fixture<CoderProvisioner>;

impl TestedKind for CoderProvisioner {
    fn with_running_values(object: &Value, running: Option<&Value>) -> Value {
        running_values::with_running_values(object, running)
    }

    fn deployment(fixture: &Provisioner) -> Value {
        fixture.children().deployment.unwrap().manifest
    }
}

impl Provisioner {
    /// `builders` in namespace `ns`, with uid `u-1` and a spec that says nothing but its control plane, `coder`, which runs
    /// `coder:v1` behind plain HTTP. Its key is proven.
    pub(in super::super) fn test() -> Self {
        Self::of_name("builders")
    }

    pub(super) fn named(mut self, name: &str) -> Self {
        self.object["metadata"]["name"] = json!(name);
        self
    }

    pub(super) fn without_uid(mut self) -> Self {
        self.object["metadata"].as_object_mut().unwrap().remove("uid");
        self
    }

    pub(in super::super) fn of_control_plane_with_image(mut self, image: &str) -> Self {
        self.control_plane.as_mut().unwrap().image = image.to_owned();
        self
    }

    pub(in super::super) fn with_certificates(mut self, checksum: Option<&str>) -> Self {
        self.control_plane.as_mut().unwrap().certificates = checksum.map(str::to_owned);
        self
    }

    pub(in super::super) fn with_key_checksum(self, checksum: &str) -> Self {
        self.with_secret(Some(checksum))
    }

    pub(in super::super) fn without_key(self) -> Self {
        self.with_secret(None)
    }

    /// The spec of the sample that uses every field.
    pub(in super::super) fn with_everything(mut self) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize/samples/coderprovisioner-everything.yaml");
        let sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        self.object["spec"] = sample["spec"].clone();
        self
    }

    pub(in super::super) fn resolved(&self) -> ResolvedProvisioner {
        let facts = Facts {
            control_plane: self.control_plane.as_ref(),
            key_checksum: self.secret_checksum.as_deref(),
            running: self.running.as_ref(),
            consumed_checksum: self.consumed_checksum.as_deref(),
        };
        resolve(&self.complete(), facts)
    }

    pub(in super::super) fn children(&self) -> Children {
        build(&self.resolved())
    }
}
