//! Decides what `render --children` shows of a manifest: the objects the reconciler would apply.
//! Never asks a cluster: there is no owner yet, no checksum, and no source of `envFrom` that gives an address. The control
//! plane of a provisioner is taken for one whose spec says nothing.

use super::attached::address::Address;
use super::attached::attachment::ControlPlaneFacts;
use super::control_plane::build as control_plane_build;
use super::control_plane::resolve as control_plane_resolve;
use super::provisioner::build as provisioner_build;
use super::provisioner::resolve as provisioner_resolve;
use super::workspace_proxy::build as workspace_proxy_build;
use super::workspace_proxy::resolve as workspace_proxy_resolve;
use crds::workspace_proxy::ProxyBootstrapSpec;
use crds::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy};
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use webhooks::Config;

/// Where a manifest names no namespace, kubectl takes this one.
const NAMESPACE: &str = "default";

/// The manifests of all children of an object that has every default in it.
pub(crate) fn render(complete: &Value, config: &Config) -> Result<Vec<Value>, String> {
    match complete.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "CoderControlPlane" => control_plane(read(complete)?, config),
        "CoderProvisioner" => provisioner(read(complete)?, config),
        "CoderWorkspaceProxy" => workspace_proxy(read(complete)?, config),
        kind => Err(format!("{kind} has no children")),
    }
}

fn read<K: DeserializeOwned>(complete: &Value) -> Result<K, String> {
    serde_json::from_value(complete.clone()).map_err(|error| error.to_string())
}

fn control_plane(mut object: CoderControlPlane, config: &Config) -> Result<Vec<Value>, String> {
    use control_plane_resolve::{Facts, resolve};
    object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let facts = Facts { cluster_domain: &config.cluster_domain, ..Facts::NONE };
    let children = control_plane_build::build(&resolve(&object, facts));
    Ok(children.all().map(|child| child.manifest.clone()).collect())
}

fn provisioner(mut object: CoderProvisioner, config: &Config) -> Result<Vec<Value>, String> {
    use provisioner_resolve::{Facts, resolve};
    let namespace = object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let name = &object.spec.control_plane_ref.name;
    let metadata =
        ObjectMeta { name: Some(name.clone()), namespace: Some(namespace.clone()), ..Default::default() };
    let silent = CoderControlPlane { metadata, ..Default::default() };
    let served = ControlPlaneFacts::of(&silent, &config.default_image, &config.cluster_domain);
    let served = served.filter(|_| !name.is_empty()).ok_or("spec.controlPlaneRef.name is empty")?;
    let facts = Facts { control_plane: Some(&served), key_checksum: Some(""), ..Facts::NONE };
    let children = provisioner_build::build(&resolve(&object, facts));
    Ok(children.all().map(|child| child.manifest.clone()).collect())
}

fn workspace_proxy(mut object: CoderWorkspaceProxy, config: &Config) -> Result<Vec<Value>, String> {
    use workspace_proxy_resolve::{Facts, resolve};
    let namespace = object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let spec = &object.spec;
    let url = spec
        .primary_access_url
        .as_deref()
        .or(spec.bootstrap.as_ref().map(|ProxyBootstrapSpec { coder_url, .. }| coder_url.as_str()));
    let image = spec.image.clone().filter(|image| !image.is_empty());
    let image = image.unwrap_or_else(|| config.default_image.clone());
    let name = spec
        .control_plane_ref
        .as_ref()
        .map(|reference| reference.name.clone())
        .filter(|name| !name.is_empty());
    let metadata = ObjectMeta { name, namespace: Some(namespace.clone()), ..Default::default() };
    let silent = CoderControlPlane { metadata, ..Default::default() };
    let served = ControlPlaneFacts::of(&silent, &image, &config.cluster_domain);
    let address = url.map(|url| Ok(Address { url: url.to_owned(), alias: None }));
    let served = match (served, address) {
        (Some(served), Some(address)) => ControlPlaneFacts { address, ..served },
        (Some(served), None) => served,
        (None, Some(address)) => ControlPlaneFacts { image, address, tls: Vec::new(), certificates: None },
        (None, None) => return Err("spec says nowhere where the control plane is".to_owned()),
    };
    let facts = Facts {
        control_plane: Some(&served),
        token_checksum: Some(""),
        cluster_domain: &config.cluster_domain,
        ..Facts::NONE
    };
    let children = workspace_proxy_build::build(&resolve(&object, facts));
    Ok(children.all().map(|child| child.manifest.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds(shown: &[Value]) -> Vec<&str> {
        shown.iter().filter_map(|child| child["kind"].as_str()).collect()
    }

    #[test]
    fn every_child_of_a_control_plane_is_shown_and_a_manifest_needs_no_namespace() {
        let object = json!({"kind": "CoderControlPlane", "metadata": {"name": "coder"}, "spec": {}});
        let shown = render(&object, &Config::default()).unwrap();
        assert_eq!(kinds(&shown), ["ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"]);
        assert!(shown.iter().all(|child| child["metadata"]["namespace"] == "default"));
    }

    #[test]
    fn the_children_of_a_provisioner_are_shown_as_for_a_control_plane_that_says_nothing() {
        let spec = json!({"controlPlaneRef": {"name": "coder"}});
        let object = json!({"kind": "CoderProvisioner", "metadata": {"name": "builders"}, "spec": spec});
        let shown = render(&object, &Config::default()).unwrap();
        assert_eq!(kinds(&shown), ["ServiceAccount", "Role", "RoleBinding", "Deployment"]);
        assert!(shown.iter().all(|child| child["metadata"]["namespace"] == "default"));
        let container = &shown[3]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], Config::default().default_image);
        assert_eq!(container["env"][0]["value"], "http://coder.default.svc.cluster.local:80");
    }

    #[test]
    fn the_children_of_a_workspace_proxy_are_shown_with_the_address_of_its_control_plane() {
        let spec = json!({"controlPlaneRef": {"name": "coder"}});
        let object = json!({"kind": "CoderWorkspaceProxy", "metadata": {"name": "eu"}, "spec": spec});
        let shown = render(&object, &Config::default()).unwrap();
        assert_eq!(kinds(&shown), ["ServiceAccount", "Deployment", "Service"]);
        let container = &shown[1]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][0]["value"], "http://coder.default.svc.cluster.local:80");
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let proxy = json!({"kind": "CoderWorkspaceProxy", "metadata": {"name": "b"}});
        assert!(render(&proxy, &Config::default()).unwrap_err().contains("where the control plane is"));
        let misfit =
            json!({"kind": "CoderControlPlane", "metadata": {"name": "c"}, "spec": {"replicas": "x"}});
        assert!(render(&misfit, &Config::default()).is_err());
        let spec = json!({"controlPlaneRef": {}});
        let object = json!({"kind": "CoderProvisioner", "metadata": {"name": "builders"}, "spec": spec});
        let refusal = render(&object, &Config::default()).unwrap_err();
        assert_eq!(refusal, "spec.controlPlaneRef.name is empty");
    }
}
