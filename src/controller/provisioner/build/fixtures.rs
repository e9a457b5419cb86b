//! Provisioners for tests, built by sentences: `Provisioner::test().of_tls_control_plane(&["a"]).with("replicas", json!(3))`.
//! They are resolved as the reconciler does it, by the function of admission, before children are made of them.

use crds::CoderProvisioner;
use serde_json::{Value, json};
use webhooks::{Config, Kind};

use super::super::resolve::{Facts, ResolvedProvisioner, resolve};
use super::super::running_values;
use super::{Children, build};
use crate::controller::attached::address::{Address, Alias, NoAddress};
use crate::controller::attached::attachment::ControlPlaneFacts;

/// A manifest and what the cluster would say about it.
#[derive(Clone)]
pub(in super::super) struct Provisioner {
    pub(in super::super) object: Value,
    control_plane: Option<ControlPlaneFacts>,
    key_checksum: Option<String>,
    running: Option<Value>,
    consumed_checksum: Option<String>,
}

impl Provisioner {
    /// `builders` in namespace `ns`, with uid `u-1` and a spec that says nothing but its control plane, `coder`, which runs
    /// `coder:v1` behind plain HTTP. Its key is proven.
    pub(in super::super) fn test() -> Self {
        let metadata = json!({"name": "builders", "namespace": "ns", "uid": "u-1"});
        Self::from(json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner", "metadata": metadata,
            "spec": {"controlPlaneRef": {"name": "coder"}},
        }))
    }

    pub(super) fn from(object: Value) -> Self {
        let control_plane = ControlPlaneFacts {
            image: "coder:v1".to_owned(),
            address: Ok(Address { url: "http://coder.ns.svc.cluster.local:80".to_owned(), alias: None }),
            tls: Vec::new(),
            certificates: None,
        };
        Self {
            object,
            control_plane: Some(control_plane),
            key_checksum: Some("abc".to_owned()),
            running: None,
            consumed_checksum: None,
        }
    }

    /// With a field of the spec; what an earlier sentence said about it is forgotten, but for maps.
    pub(in super::super) fn with(mut self, field: &str, value: Value) -> Self {
        match (&mut self.object["spec"][field], value) {
            (Value::Object(there), Value::Object(more)) => there.extend(more),
            (there, value) => *there = value,
        }
        self
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

    pub(in super::super) fn of_tls_control_plane(mut self, secrets: &[&str]) -> Self {
        let control_plane = self.control_plane.as_mut().unwrap();
        let url = "https://coder.ns.svc.cluster.local:443".to_owned();
        control_plane.address = Ok(Address { url, alias: None });
        control_plane.tls = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        control_plane.certificates = Some("0123abcd".to_owned());
        self
    }

    /// Of a control plane that is asked for by a name of its certificate, which leads to this address.
    pub(in super::super) fn through_alias(mut self, host: &str, ip: &str) -> Self {
        let alias = Alias { host: host.to_owned(), ip: ip.to_owned() };
        let address = Address { url: format!("https://{host}:443"), alias: Some(alias) };
        self.control_plane.as_mut().unwrap().address = Ok(address);
        self
    }

    pub(in super::super) fn of_control_plane_without_address(mut self) -> Self {
        let host = "coder.ns.svc.cluster.local".to_owned();
        self.control_plane.as_mut().unwrap().address = Err(NoAddress::Unnamed { host });
        self
    }

    pub(in super::super) fn with_certificates(mut self, checksum: Option<&str>) -> Self {
        self.control_plane.as_mut().unwrap().certificates = checksum.map(str::to_owned);
        self
    }

    pub(in super::super) fn without_control_plane(mut self) -> Self {
        self.control_plane = None;
        self
    }

    pub(in super::super) fn with_key_checksum(mut self, checksum: &str) -> Self {
        self.key_checksum = Some(checksum.to_owned());
        self
    }

    pub(in super::super) fn without_key(mut self) -> Self {
        self.key_checksum = None;
        self
    }

    /// With this checksum of what the spec lets pods read.
    pub(in super::super) fn with_checksum(mut self, checksum: &str) -> Self {
        self.consumed_checksum = Some(checksum.to_owned());
        self
    }

    /// While this Deployment runs.
    pub(in super::super) fn running(mut self, deployment: Value) -> Self {
        self.running = Some(deployment);
        self
    }

    /// The spec of the sample that uses every field.
    pub(in super::super) fn with_everything(mut self) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize/samples/coderprovisioner-everything.yaml");
        let sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        self.object["spec"] = sample["spec"].clone();
        self
    }

    pub(in super::super) fn complete(&self) -> CoderProvisioner {
        let given = running_values::with_running_values(&self.object, self.running.as_ref());
        let complete = webhooks::resolved(Kind::Provisioner, &given, &Config::default());
        serde_json::from_value(complete).unwrap()
    }

    pub(in super::super) fn resolved(&self) -> ResolvedProvisioner {
        let facts = Facts {
            control_plane: self.control_plane.as_ref(),
            key_checksum: self.key_checksum.as_deref(),
            running: self.running.as_ref(),
            consumed_checksum: self.consumed_checksum.as_deref(),
        };
        resolve(&self.complete(), facts)
    }

    pub(in super::super) fn children(&self) -> Children {
        build(&self.resolved())
    }

    /// The manifest of the Deployment.
    pub(in super::super) fn deployment(&self) -> Value {
        self.children().deployment.unwrap().manifest
    }

    /// The template of the pods.
    pub(super) fn template(&self) -> Value {
        self.deployment()["spec"]["template"].clone()
    }

    /// The spec of the pods.
    pub(super) fn pod(&self) -> Value {
        self.template()["spec"].clone()
    }

    /// The container of a daemon.
    pub(super) fn container(&self) -> Value {
        self.pod()["containers"][0].clone()
    }
}
