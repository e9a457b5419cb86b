//! Decides what `render --children` shows of a manifest: the objects the reconciler would apply.
//! Never asks a cluster: there is no owner yet, no checksum, no certificate, and no source of `envFrom` that gives an address.
//! A control plane that is not among the input is taken for one whose spec says nothing, and that is said.

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

/// Manifests, and what had to be assumed for them; or why there are none.
type Rendered = Result<(Vec<Value>, Option<String>), String>;

/// The manifests of all children of an object that has every default in it, and what had to be assumed for them. `input` is
/// all that was given, this object too.
pub(crate) fn render(complete: &Value, input: &[Value], config: &Config) -> Rendered {
    match complete.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "CoderControlPlane" => control_plane(read(complete)?, config),
        "CoderProvisioner" => provisioner(read(complete)?, input, config),
        "CoderWorkspaceProxy" => workspace_proxy(read(complete)?, input, config),
        kind => Err(format!("{kind} has no children; leave out --children to render it")),
    }
}

fn read<K: DeserializeOwned>(complete: &Value) -> Result<K, String> {
    serde_json::from_value(complete.clone()).map_err(|error| error.to_string())
}

/// The control plane that is referred to, and what had to be assumed of it.
struct Referred {
    control_plane: CoderControlPlane,
    assumed: Option<String>,
}

impl Referred {
    /// The one of the input, else one without a spec.
    fn find(input: &[Value], namespace: &str, name: &str) -> Result<Self, String> {
        let text = |object: &Value, key: &str| object["metadata"][key].as_str().map(str::to_owned);
        let is_it = |object: &&Value| {
            object["kind"] == "CoderControlPlane"
                && text(object, "name").as_deref() == Some(name)
                && text(object, "namespace").as_deref().unwrap_or(NAMESPACE) == namespace
        };
        let found = input.iter().find(is_it);
        let mut control_plane: CoderControlPlane = found.map(read).transpose()?.unwrap_or_default();
        control_plane.metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        };
        let assumed = found.is_none().then(|| {
            format!("CoderControlPlane {name} is not among the input: image and address are those of one without a spec; add its manifest to the input for its own")
        });
        Ok(Self { control_plane, assumed })
    }

    fn facts(&self, config: &Config) -> Option<ControlPlaneFacts> {
        let image = self.control_plane.spec.image.as_deref().filter(|image| !image.is_empty());
        let image = image.unwrap_or(&config.default_image);
        ControlPlaneFacts::of(&self.control_plane, image, &config.cluster_domain)
    }
}

fn control_plane(mut object: CoderControlPlane, config: &Config) -> Rendered {
    use control_plane_resolve::{Facts, resolve};
    object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let facts = Facts { cluster_domain: &config.cluster_domain, ..Facts::NONE };
    let children = control_plane_build::build(&resolve(&object, facts));
    Ok((children.all().map(|child| child.manifest.clone()).collect(), None))
}

fn provisioner(mut object: CoderProvisioner, input: &[Value], config: &Config) -> Rendered {
    use provisioner_resolve::{Facts, resolve};
    let namespace = object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let name = &object.spec.control_plane_ref.name;
    let referred = Referred::find(input, namespace, name)?;
    let served = referred.facts(config).filter(|_| !name.is_empty());
    let served = served.ok_or(
        "spec.controlPlaneRef.name is empty; set it to the name of a CoderControlPlane in the same namespace",
    )?;
    let facts = Facts { control_plane: Some(&served), key_checksum: Some(""), ..Facts::NONE };
    let children = provisioner_build::build(&resolve(&object, facts));
    Ok((children.all().map(|child| child.manifest.clone()).collect(), referred.assumed))
}

fn workspace_proxy(mut object: CoderWorkspaceProxy, input: &[Value], config: &Config) -> Rendered {
    use workspace_proxy_resolve::{Facts, resolve};
    let namespace = object.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    let spec = &object.spec;
    let url = spec
        .primary_access_url
        .as_deref()
        .or(spec.bootstrap.as_ref().map(|ProxyBootstrapSpec { coder_url, .. }| coder_url.as_str()));
    let image = spec.image.clone().filter(|image| !image.is_empty());
    let image = image.unwrap_or_else(|| config.default_image.clone());
    let name =
        spec.control_plane_ref.as_ref().map(|reference| &reference.name).filter(|name| !name.is_empty());
    let referred = name.map(|name| Referred::find(input, namespace, name)).transpose()?;
    let served = referred.as_ref().and_then(|referred| referred.facts(config));
    let address = url.map(|url| Ok(Address { url: url.to_owned(), alias: None }));
    let served = match (served, address) {
        (Some(served), Some(address)) => ControlPlaneFacts { address, ..served },
        (Some(served), None) => served,
        (None, Some(address)) => ControlPlaneFacts { image, address, tls: Vec::new(), certificates: None },
        (None, None) => {
            let why = "spec says nowhere where the control plane is; set spec.controlPlaneRef, spec.bootstrap, or \
                       spec.primaryAccessURL with spec.proxySessionTokenSecretRef";
            return Err(why.to_owned());
        }
    };
    let facts = Facts {
        control_plane: Some(&served),
        token_checksum: Some(""),
        cluster_domain: &config.cluster_domain,
        ..Facts::NONE
    };
    let children = workspace_proxy_build::build(&resolve(&object, facts));
    let assumed = referred.and_then(|referred| referred.assumed);
    Ok((children.all().map(|child| child.manifest.clone()).collect(), assumed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds(shown: &[Value]) -> Vec<&str> {
        shown.iter().filter_map(|child| child["kind"].as_str()).collect()
    }

    fn container(shown: &[Value]) -> &Value {
        let deployment = shown.iter().find(|child| child["kind"] == "Deployment").unwrap();
        &deployment["spec"]["template"]["spec"]["containers"][0]
    }

    #[test]
    fn a_control_plane_of_the_same_input_and_namespace_gives_image_address_and_trust() {
        let spec = json!({ "image": "ghcr.io/coder/coder:v2.35.0", "service": { "port": 8443 },
            "tls": { "secretNames": ["coder-tls"] } });
        let plane = json!({ "kind": "CoderControlPlane", "metadata": { "name": "coder" }, "spec": spec });
        let config = Config::default();
        let complete = webhooks::resolved(webhooks::Kind::ControlPlane, &plane, &config);
        for kind in ["CoderProvisioner", "CoderWorkspaceProxy"] {
            let of = |namespace: &str| {
                json!({ "kind": kind, "metadata": { "name": "eu", "namespace": namespace },
                    "spec": { "controlPlaneRef": { "name": "coder" } } })
            };
            let (shown, assumed) = render(&of("default"), std::slice::from_ref(&complete), &config).unwrap();
            assert_eq!(container(&shown)["image"], "ghcr.io/coder/coder:v2.35.0", "{kind}");
            assert_eq!(
                container(&shown)["env"][0]["value"],
                "https://coder.default.svc.cluster.local:443",
                "{kind}"
            );
            assert!(json!(shown).to_string().contains("coder-tls"), "{kind}");
            assert_eq!(assumed, None);
            let (elsewhere, assumed) =
                render(&of("other"), std::slice::from_ref(&complete), &config).unwrap();
            assert_eq!(container(&elsewhere)["image"], config.default_image, "{kind}");
            assert!(assumed.unwrap().contains("CoderControlPlane coder is not among the input"));
        }
    }

    #[test]
    fn every_child_of_a_control_plane_is_shown_and_a_manifest_needs_no_namespace() {
        let object = json!({"kind": "CoderControlPlane", "metadata": {"name": "coder"}, "spec": {}});
        let (shown, _) = render(&object, &[], &Config::default()).unwrap();
        assert_eq!(kinds(&shown), ["ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"]);
        assert!(shown.iter().all(|child| child["metadata"]["namespace"] == "default"));
    }

    #[test]
    fn the_children_of_a_provisioner_are_shown_as_for_a_control_plane_that_says_nothing() {
        let spec = json!({"controlPlaneRef": {"name": "coder"}});
        let object = json!({"kind": "CoderProvisioner", "metadata": {"name": "builders"}, "spec": spec});
        let (shown, _) = render(&object, &[], &Config::default()).unwrap();
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
        let (shown, _) = render(&object, &[], &Config::default()).unwrap();
        assert_eq!(kinds(&shown), ["ServiceAccount", "Deployment", "Service"]);
        let container = &shown[1]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][0]["value"], "http://coder.default.svc.cluster.local:80");
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let proxy = json!({"kind": "CoderWorkspaceProxy", "metadata": {"name": "b"}});
        assert!(render(&proxy, &[], &Config::default()).unwrap_err().contains("where the control plane is"));
        let misfit =
            json!({"kind": "CoderControlPlane", "metadata": {"name": "c"}, "spec": {"replicas": "x"}});
        assert!(render(&misfit, &[], &Config::default()).is_err());
        let spec = json!({"controlPlaneRef": {}});
        let object = json!({"kind": "CoderProvisioner", "metadata": {"name": "builders"}, "spec": spec});
        let refusal = render(&object, &[], &Config::default()).unwrap_err();
        assert_eq!(
            refusal,
            "spec.controlPlaneRef.name is empty; set it to the name of a CoderControlPlane in the same namespace"
        );
    }
}
