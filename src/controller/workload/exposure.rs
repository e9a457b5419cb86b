//! Decides how users outside the cluster reach the pods: an Ingress or an HTTPRoute to the Service's port for plain HTTP.
//! Never both: where an old object asks for both, the Ingress stands.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    IngressSpec, IngressTLS, ServiceBackendPort,
};
use serde_json::{Map, Value, json};

use crate::controller::children::{Child, ChildKind, ChildOwner, non_empty};
use crds::exposure::{ExposeSpec, GatewayExposeSpec, IngressExposeSpec};

/// The one way in that a spec asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Expose {
    /// By an Ingress.
    Ingress(IngressExposeSpec),
    /// By an HTTPRoute.
    Gateway(GatewayExposeSpec),
}

/// The way in that a spec asks for, if any.
pub(crate) fn resolve(spec: Option<&ExposeSpec>) -> Option<Expose> {
    let spec = spec?;
    let ingress = spec.ingress.clone().map(Expose::Ingress);
    ingress.or_else(|| spec.gateway.clone().map(Expose::Gateway))
}

/// The Ingress and the HTTPRoute that it asks for, to this port of the Service: at most one of them.
pub(crate) fn children(
    owner: &ChildOwner,
    expose: Option<&Expose>,
    port: i32,
) -> (Option<Child>, Option<Child>) {
    match expose {
        Some(Expose::Ingress(spec)) => (Some(ingress(owner, spec, port)), None),
        Some(Expose::Gateway(spec)) => (None, Some(http_route(owner, spec, port))),
        None => (None, None),
    }
}

impl Expose {
    /// The host by which users reach the pods, and whether by HTTPS: an Ingress says so, of a Gateway it is taken for granted.
    pub(crate) fn host(&self) -> (&str, bool) {
        match self {
            Self::Ingress(spec) => {
                let is_secure = spec.tls.as_ref().is_some_and(|tls| trimmed(&tls.secret_name).is_some());
                (spec.host.trim(), is_secure)
            }
            Self::Gateway(spec) => (spec.host.trim(), true),
        }
    }

    /// The wildcard for subdomains, if there is one.
    pub(crate) fn wildcard_host(&self) -> Option<&str> {
        match self {
            Self::Ingress(spec) => trimmed(&spec.wildcard_host),
            Self::Gateway(spec) => trimmed(&spec.wildcard_host),
        }
    }
}

/// A text without blanks around it; one that is empty counts as not given.
fn trimmed(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// The Ingress, to this port of the Service.
pub(crate) fn ingress(owner: &ChildOwner, spec: &IngressExposeSpec, port: i32) -> Child {
    let (host, wildcard) = (spec.host.trim(), trimmed(&spec.wildcard_host));
    let tls = spec.tls.clone().unwrap_or_default();
    let certificate = |host: Option<&str>, secret: Option<&str>| {
        let (hosts, secret) = (vec![host?.to_owned()], secret?.to_owned());
        Some(IngressTLS { hosts: Some(hosts), secret_name: Some(secret) })
    };
    let certificates: Vec<IngressTLS> = [
        certificate(Some(host), trimmed(&tls.secret_name)),
        certificate(wildcard, trimmed(&tls.wildcard_secret_name)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut metadata = owner.workload_metadata();
    metadata.annotations = non_empty(&spec.annotations);
    let hosts = std::iter::once(host).chain(wildcard);
    Child::of(&Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: trimmed(&spec.class_name).map(str::to_owned),
            rules: Some(hosts.map(|host| rule(&owner.workload, port, host)).collect()),
            tls: non_empty(&certificates),
            ..Default::default()
        }),
        status: None,
    })
}

/// Everything under a host goes to the Service.
fn rule(service: &str, port: i32, host: &str) -> IngressRule {
    let backend = IngressServiceBackend {
        name: service.to_owned(),
        port: Some(ServiceBackendPort { number: Some(port), ..Default::default() }),
    };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service: Some(backend), ..Default::default() },
    };
    IngressRule { host: Some(host.to_owned()), http: Some(HTTPIngressRuleValue { paths: vec![path] }) }
}

/// The HTTPRoute, to this port of the Service.
pub(crate) fn http_route(owner: &ChildOwner, spec: &GatewayExposeSpec, port: i32) -> Child {
    let hosts: Vec<&str> = std::iter::once(spec.host.trim()).chain(trimmed(&spec.wildcard_host)).collect();
    let parents: Vec<Value> = spec
        .parent_refs
        .iter()
        .map(|parent| {
            let mut reference = Map::from_iter([("name".to_owned(), json!(parent.name.trim()))]);
            for (key, text) in [("namespace", &parent.namespace), ("sectionName", &parent.section_name)] {
                reference.extend(trimmed(text).map(|text| (key.to_owned(), json!(text))));
            }
            Value::Object(reference)
        })
        .collect();
    let backend = json!({ "group": "", "kind": "Service", "name": owner.workload, "port": port });
    let matches = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let rules = json!([{"matches": matches, "backendRefs": [backend]}]);
    let spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": rules});
    Child::extension(ChildKind::HttpRoute, owner.workload_metadata(), spec)
}
