//! Objects for tests of any kind that belongs to a control plane, built by sentences: a manifest, and what the cluster would say
//! about it. What an object of a kind is like, and what is made of it, is said by the fixtures of the kind.

use super::address::{Address, Alias, NoAddress};
use super::attachment::ControlPlaneFacts;
use crate::controller::object::ReconciledKind;
use serde_json::{Value, json};
use std::marker::PhantomData;
use webhooks::Config;

/// What the fixtures of a kind say of it.
pub(crate) trait TestedKind: ReconciledKind {
    /// The object with what stays of a Deployment that runs.
    fn with_running_values(object: &Value, running: Option<&Value>) -> Value;

    /// The manifest of the Deployment that is made of it.
    fn deployment(fixture: &Fixture<Self>) -> Value;
}

/// A manifest and what the cluster would say about it.
#[derive(Clone)]
pub(crate) struct Fixture<K> {
    pub(crate) object: Value,
    pub(crate) control_plane: Option<ControlPlaneFacts>,
    /// Checksum of the key or token, if it is proven.
    pub(crate) secret_checksum: Option<String>,
    pub(crate) running: Option<Value>,
    pub(crate) consumed_checksum: Option<String>,
    kind: PhantomData<K>,
}

impl<K: TestedKind> Fixture<K> {
    /// This object, of a control plane that runs `coder:v1` behind plain HTTP. Its key or token is proven.
    pub(crate) fn from(object: Value) -> Self {
        let control_plane = ControlPlaneFacts {
            image: "coder:v1".to_owned(),
            address: Ok(Address { url: "http://coder.ns.svc.cluster.local:80".to_owned(), alias: None }),
            tls: Vec::new(),
            certificates: None,
        };
        Self {
            object,
            control_plane: Some(control_plane),
            secret_checksum: Some("abc".to_owned()),
            running: None,
            consumed_checksum: None,
            kind: PhantomData,
        }
    }

    /// One of this name in namespace `ns`, with uid `u-1` and a spec that says nothing but its control plane, `coder`.
    pub(crate) fn of_name(name: &str) -> Self {
        Self::from(json!({
            "apiVersion": K::NAME[0], "kind": K::NAME[1],
            "metadata": {"name": name, "namespace": "ns", "uid": "u-1"},
            "spec": {"controlPlaneRef": {"name": "coder"}},
        }))
    }

    /// With a field of the spec; what an earlier sentence said about it is forgotten, but for maps.
    pub(crate) fn with(mut self, field: &str, value: Value) -> Self {
        match (&mut self.object["spec"][field], value) {
            (Value::Object(there), Value::Object(more)) => there.extend(more),
            (there, value) => *there = value,
        }
        self
    }

    pub(crate) fn of_tls_control_plane(mut self, secrets: &[&str]) -> Self {
        let control_plane = self.control_plane.as_mut().unwrap();
        let url = "https://coder.ns.svc.cluster.local:443".to_owned();
        control_plane.address = Ok(Address { url, alias: None });
        control_plane.tls = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        control_plane.certificates = Some("0123abcd".to_owned());
        self
    }

    /// Of a control plane that is asked for by a name of its certificate, which leads to this address.
    pub(crate) fn through_alias(mut self, host: &str, ip: &str) -> Self {
        let alias = Alias { host: host.to_owned(), ip: ip.to_owned() };
        let address = Address { url: format!("https://{host}:443"), alias: Some(alias) };
        self.control_plane.as_mut().unwrap().address = Ok(address);
        self
    }

    pub(crate) fn of_control_plane_without_address(mut self) -> Self {
        let host = "coder.ns.svc.cluster.local".to_owned();
        self.control_plane.as_mut().unwrap().address = Err(NoAddress::Unnamed { host });
        self
    }

    pub(crate) fn without_control_plane(mut self) -> Self {
        self.control_plane = None;
        self
    }

    /// With a proven key or token of this checksum, or with none.
    pub(crate) fn with_secret(mut self, checksum: Option<&str>) -> Self {
        self.secret_checksum = checksum.map(str::to_owned);
        self
    }

    /// With this checksum of what the spec lets pods read.
    pub(crate) fn with_checksum(mut self, checksum: &str) -> Self {
        self.consumed_checksum = Some(checksum.to_owned());
        self
    }

    /// While this Deployment runs.
    pub(crate) fn running(mut self, deployment: Value) -> Self {
        self.running = Some(deployment);
        self
    }

    /// The object, completed as the reconciler does it, by the function of admission.
    pub(crate) fn complete(&self) -> K {
        let given = K::with_running_values(&self.object, self.running.as_ref());
        serde_json::from_value(webhooks::resolved(K::RULES, &given, &Config::default())).unwrap()
    }

    /// The manifest of the Deployment.
    pub(crate) fn deployment(&self) -> Value {
        K::deployment(self)
    }

    /// The template of the pods.
    pub(crate) fn template(&self) -> Value {
        self.deployment()["spec"]["template"].clone()
    }

    /// The spec of the pods.
    pub(crate) fn pod(&self) -> Value {
        self.template()["spec"].clone()
    }

    /// The one container of the pods.
    pub(crate) fn container(&self) -> Value {
        self.pod()["containers"][0].clone()
    }
}
