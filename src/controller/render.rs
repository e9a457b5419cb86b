//! Decides what `render --children` shows of a manifest: the objects the reconciler would apply.
//! Never asks a cluster: there is no owner yet, no checksum, and no source of `envFrom` that gives an address.

use crds::CoderControlPlane;
use serde_json::Value;
use webhooks::Config;

use super::control_plane::build::build;
use super::control_plane::resolve::{Facts, resolve};

/// The manifests of all children of an object that has every default in it.
pub(crate) fn render(complete: &Value, config: &Config) -> Result<Vec<Value>, String> {
    let kind = complete.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != "CoderControlPlane" {
        return Err("they come with its reconciler, which this release does not have yet".to_owned());
    }
    let mut control_plane: CoderControlPlane =
        serde_json::from_value(complete.clone()).map_err(|error| error.to_string())?;
    // Where a manifest names no namespace, kubectl takes this one.
    control_plane.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    let facts = Facts { cluster_domain: &config.cluster_domain, ..Facts::NONE };
    let children = build(&resolve(&control_plane, facts));
    Ok(children.all().map(|child| child.manifest.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_child_of_a_control_plane_is_shown_and_a_manifest_needs_no_namespace() {
        let object = json!({"kind": "CoderControlPlane", "metadata": {"name": "coder"}, "spec": {}});
        let shown = render(&object, &Config::default()).unwrap();
        let kinds: Vec<&str> = shown.iter().filter_map(|child| child["kind"].as_str()).collect();
        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"]);
        assert!(shown.iter().all(|child| child["metadata"]["namespace"] == "default"));
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let provisioner = json!({"kind": "CoderProvisioner", "metadata": {"name": "b"}});
        assert!(render(&provisioner, &Config::default()).unwrap_err().contains("reconciler"));
        let misfit =
            json!({"kind": "CoderControlPlane", "metadata": {"name": "c"}, "spec": {"replicas": "x"}});
        assert!(render(&misfit, &Config::default()).is_err());
    }
}
