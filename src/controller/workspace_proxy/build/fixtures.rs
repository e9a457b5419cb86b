//! Workspace proxies for tests, built by sentences: `Proxy::test().of_tls_control_plane(&["a"]).with("replicas", json!(3))`.
//! They are resolved as the reconciler does it, by the function of admission, before children are made of them.

use super::super::resolve::{Facts, ResolvedProxy, resolve};
use super::super::running_values;
use super::{Children, build};
use crate::controller::attached::address::Address;
use crate::controller::attached::attachment::ControlPlaneFacts;
use crds::CoderWorkspaceProxy;
use serde_json::{Value, json};
use webhooks::{Config, Kind};

/// A manifest and what the cluster would say about it.
#[derive(Clone)]
pub(in super::super) struct Proxy {
    pub(in super::super) object: Value,
    control_plane: Option<ControlPlaneFacts>,
    token_checksum: Option<String>,
    running: Option<Value>,
    consumed_checksum: Option<String>,
}

impl Proxy {
    /// `eu` in namespace `ns`, with uid `u-1` and a spec that says nothing but its control plane, `coder`, which runs `coder:v1`
    /// behind plain HTTP. Its token is proven.
    pub(in super::super) fn test() -> Self {
        let control_plane = ControlPlaneFacts {
            image: "coder:v1".to_owned(),
            address: Ok(Address { url: "http://coder.ns.svc.cluster.local:80".to_owned(), alias: None }),
            tls: Vec::new(),
            certificates: None,
        };
        let object = json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": {"name": "eu", "namespace": "ns", "uid": "u-1"},
            "spec": {"controlPlaneRef": {"name": "coder"}},
        });
        Self {
            object,
            control_plane: Some(control_plane),
            token_checksum: Some("abc".to_owned()),
            running: None,
            consumed_checksum: None,
        }
    }

    /// With a field of the spec.
    pub(in super::super) fn with(mut self, field: &str, value: Value) -> Self {
        self.object["spec"][field] = value;
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

    pub(in super::super) fn without_control_plane(mut self) -> Self {
        self.control_plane = None;
        self
    }

    pub(in super::super) fn with_token_checksum(mut self, checksum: &str) -> Self {
        self.token_checksum = Some(checksum.to_owned());
        self
    }

    pub(in super::super) fn without_token(mut self) -> Self {
        self.token_checksum = None;
        self
    }

    /// With this checksum of what the spec lets pods read.
    pub(super) fn with_checksum(mut self, checksum: &str) -> Self {
        self.consumed_checksum = Some(checksum.to_owned());
        self
    }

    /// While this Deployment runs.
    pub(in super::super) fn running(mut self, deployment: Value) -> Self {
        self.running = Some(deployment);
        self
    }

    pub(super) fn complete(&self) -> CoderWorkspaceProxy {
        let given = running_values::with_running_values(&self.object, self.running.as_ref());
        let complete = webhooks::resolved(Kind::WorkspaceProxy, &given, &Config::default());
        serde_json::from_value(complete).unwrap()
    }

    pub(in super::super) fn resolved(&self) -> ResolvedProxy {
        let facts = Facts {
            control_plane: self.control_plane.as_ref(),
            token_checksum: self.token_checksum.as_deref(),
            running: self.running.as_ref(),
            consumed_checksum: self.consumed_checksum.as_deref(),
            cluster_domain: "cluster.local",
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

    /// The spec of the pods.
    pub(super) fn pod(&self) -> Value {
        self.deployment()["spec"]["template"]["spec"].clone()
    }

    /// The container of the proxy.
    pub(super) fn container(&self) -> Value {
        self.pod()["containers"][0].clone()
    }
}
