//! Decides every value that the children of a workspace proxy are built from, without an `Option` where there is a default. It is
//! the only input of `build`. Pure: what the cluster holds comes in as a value.
//!
//! What is not known leaves what runs as it is. A control plane that is gone, or a token that is not proven yet, stops no proxy:
//! image, address, trust and token are then those of the running Deployment, while everything else still follows the spec.

use super::build::{ACCESS_URL, PRIMARY_URL};
use super::running_values;
use super::way::place;
use crate::controller::attached::attachment::{Attachment, ControlPlaneFacts, Given, SecretSource};
use crate::controller::children::ChildOwner;
use crate::controller::workload::exposure::{self, Expose};
use crate::controller::workload::pods::{self, PodSettings};
use crate::controller::workload::probes::{self, Probes};
use crate::controller::workload::service::{self, Front};
use crate::controller::workload::{monitoring, ports};
use crds::names::workspace_proxy::{service_account, workload};
use crds::well_known::app_name;
use crds::{CoderWorkspaceProxy, CoderWorkspaceProxySpec};
use serde_json::Value;
use webhooks::defaults::HTTPS;

/// What the cluster says about an object before its children are built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// What pods have from the control plane they belong to, if it is known.
    pub(crate) control_plane: Option<&'a ControlPlaneFacts>,
    /// Checksum of the token in the Secret that the spec names, once that token is proven to work.
    pub(crate) token_checksum: Option<&'a str>,
    /// The Deployment that runs, if it is this object's.
    pub(crate) running: Option<&'a Value>,
    /// Hash over every Secret and ConfigMap that the spec lets pods read; another one rolls the Deployment.
    pub(crate) consumed_checksum: Option<&'a str>,
    /// The DNS domain of the cluster.
    pub(crate) cluster_domain: &'a str,
}

impl Facts<'_> {
    /// Nothing is known.
    pub(crate) const NONE: Facts<'static> = Facts {
        control_plane: None,
        token_checksum: None,
        running: None,
        consumed_checksum: None,
        cluster_domain: "",
    };
}

/// A workspace proxy with every value that its children are built from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedProxy {
    /// Whom the children belong to.
    pub(crate) owner: ChildOwner,
    /// How many pods.
    pub(crate) replicas: i32,
    /// The Service.
    pub(crate) service: Front,
    /// Its pods.
    pub(crate) pods: PodSettings,
    /// How users outside the cluster reach it.
    pub(crate) expose: Option<Expose>,
    /// The probes of its container.
    pub(crate) probes: Probes,
    /// The address by which users and coderd reach it.
    pub(crate) access_url: String,
    /// The wildcard for workspace applications.
    pub(crate) wildcard: Option<String>,
    /// What pods run with; none as long as it is not known and nothing runs.
    pub(crate) proxy: Option<ProxyPods>,
    /// Hash over everything that the spec lets pods read.
    pub(crate) consumed_checksum: Option<String>,
    /// The spec, for the fields that have no default.
    pub(crate) spec: CoderWorkspaceProxySpec,
}

/// What the pods of a proxy run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyPods {
    /// What they have from their control plane.
    pub(crate) attachment: Attachment,
    /// Where their token is.
    pub(crate) token: SecretSource,
}

/// The proxy with every value that its children are built from. `complete` has every default of admission in it.
pub(crate) fn resolve(complete: &CoderWorkspaceProxy, facts: Facts<'_>) -> ResolvedProxy {
    let (owner, spec) = (owner(complete), &complete.spec);
    let tls = spec.tls.as_ref().map_or(&[][..], |tls| &tls.secret_names);
    let (account, metrics) = (service_account(&owner.name, spec), monitoring::resolve(spec.metrics.as_ref()));
    let pods = pods::resolve(spec.pod_fields(), &account, tls, metrics, spec.grace_period_or_default());
    let is_secure = pods.certificates.serve_tls();
    let service = service::resolve(spec.service.as_ref(), ports::PROXY, is_secure);
    let (readiness, liveness, startup) = (&spec.readiness_probe, &spec.liveness_probe, &spec.startup_probe);
    let expose = exposure::resolve(spec.expose.as_ref());
    let exposed = expose.as_ref().and_then(Expose::wildcard_host);
    ResolvedProxy {
        replicas: spec.replicas_or_default(),
        access_url: access_url(&owner, spec, expose.as_ref(), is_secure, facts.cluster_domain),
        wildcard: text(&spec.wildcard_access_url).or(exposed).map(str::to_owned),
        service,
        pods,
        expose,
        probes: probes::resolve(readiness.as_ref(), liveness.as_ref(), startup.as_ref()),
        proxy: proxy(complete, facts),
        consumed_checksum: facts.consumed_checksum.map(str::to_owned),
        spec: spec.clone(),
        owner,
    }
}

/// Whom the children of a workspace proxy belong to.
pub(crate) fn owner(proxy: &CoderWorkspaceProxy) -> ChildOwner {
    ChildOwner::of(&proxy.metadata, "CoderWorkspaceProxy", app_name::WORKSPACE_PROXY, workload)
}

impl ResolvedProxy {
    /// Whether pods run an image that their author named, and not that of a control plane.
    pub(super) fn names_image(&self) -> bool {
        self.spec.image.as_ref().is_some_and(|image| !image.is_empty())
    }
}

fn text(given: &Option<String>) -> Option<&str> {
    given.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// The address of the Service inside the cluster, without a port that the scheme implies.
pub(crate) fn service_url(
    owner: &ChildOwner,
    spec: &CoderWorkspaceProxySpec,
    is_secure: bool,
    domain: &str,
) -> String {
    let host = format!("{}.{}.svc.{domain}", owner.workload, owner.namespace);
    match spec.service_port_or_default() {
        _ if is_secure => format!("https://{host}"),
        80 => format!("http://{host}"),
        HTTPS => format!("http://{host}:{HTTPS}"),
        port => format!("http://{host}:{port}"),
    }
}

/// That of the spec, else that of the way in from outside, else that of the Service.
fn access_url(
    owner: &ChildOwner,
    spec: &CoderWorkspaceProxySpec,
    expose: Option<&Expose>,
    is_secure: bool,
    domain: &str,
) -> String {
    if let Some(url) = text(&spec.access_url) {
        return url.to_owned();
    }
    match expose.map(Expose::host) {
        Some((host, true)) => format!("https://{host}"),
        Some((host, false)) => format!("http://{host}"),
        None => service_url(owner, spec, is_secure, domain),
    }
}

fn proxy(complete: &CoderWorkspaceProxy, facts: Facts<'_>) -> Option<ProxyPods> {
    let spec = &complete.spec;
    let has_address = gives_address(spec);
    let (plane, checksum) = match facts.control_plane {
        Some(plane) if plane.address.is_err() && !has_address => (None, None),
        plane => (plane, facts.token_checksum),
    };
    let running = facts.running.and_then(running_values::proxy);
    let image = spec.image.as_ref().filter(|image| !image.is_empty());
    let given = Given { image, has_address, host_aliases: &spec.host_aliases };
    let attachment = Attachment::resolve(plane, running.as_ref().map(|runs| &runs.attachment), given)?;
    let place = place(complete);
    let proven = checksum.map(|checksum| SecretSource {
        secret: place.secret,
        key: place.data_key,
        checksum: checksum.to_owned(),
    });
    let token = proven.or_else(|| running.map(|runs| runs.token))?;
    Some(ProxyPods { attachment, token })
}

/// Whether the environment of the spec says itself where the control plane is.
pub(super) fn gives_address(spec: &CoderWorkspaceProxySpec) -> bool {
    spec.extra_env.iter().any(|variable| variable.name == PRIMARY_URL)
}

/// Whether the environment of the spec says by which address users reach the proxy.
pub(super) fn gives_access_url(spec: &CoderWorkspaceProxySpec) -> bool {
    spec.extra_env.iter().any(|variable| variable.name == ACCESS_URL)
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Proxy;
    use serde_json::json;

    #[test]
    fn users_reach_the_proxy_by_the_spec_by_what_exposes_it_or_by_the_service() {
        let url = |given: Proxy| given.resolved().access_url;
        assert_eq!(url(Proxy::test()), "http://wsproxy-eu.ns.svc.cluster.local");
        let port = Proxy::test().with("service", json!({"port": 8080}));
        assert_eq!(url(port), "http://wsproxy-eu.ns.svc.cluster.local:8080");
        let tls = Proxy::test().with("tls", json!({"secretNames": ["a"]}));
        assert_eq!(url(tls), "https://wsproxy-eu.ns.svc.cluster.local");
        let ingress = json!({"ingress": {"host": "eu.example.com", "wildcardHost": "*.eu.example.com"}});
        let exposed = Proxy::test().with("expose", ingress);
        assert_eq!(url(exposed.clone()), "http://eu.example.com");
        assert_eq!(exposed.resolved().wildcard.as_deref(), Some("*.eu.example.com"));
        let given = exposed.with("accessURL", json!("https://frankfurt.example.com"));
        assert_eq!(url(given), "https://frankfurt.example.com");
    }

    #[test]
    fn without_a_control_plane_or_a_proven_token_what_runs_stays() {
        let before = Proxy::test().with_token_checksum("old");
        let running = || Proxy::test().running(before.deployment());
        let ran = before.resolved().proxy;
        assert_eq!(Proxy::test().without_control_plane().resolved().proxy, None, "nothing runs");
        assert_eq!(running().without_control_plane().without_token().resolved().proxy, ran);
        assert_eq!(running().without_token().resolved().proxy, ran);
        let rotated = running().with_token_checksum("new").resolved().proxy.unwrap();
        assert_eq!(rotated.token.checksum, "new");
    }

    #[test]
    fn the_image_follows_the_control_plane_unless_the_spec_names_one() {
        let image = |given: Proxy| given.resolved().proxy.unwrap().attachment.image;
        assert_eq!(image(Proxy::test().with("image", json!("mine:v1"))), "mine:v1");
    }
}
