//! Decides whether an `envFrom` of the spec gives coderd the address that would be our default. Pure: it is shown what the pods
//! read and reads nothing.

use super::build::{self, ACCESS_URL};
use crate::control_plane_access::in_force::container;
use crate::controller::workload::consumed::{Consumed, Source};
use crds::CoderControlPlane;
use serde_json::Value;

/// Whether some `envFrom` of this source gives it.
pub(super) fn gives_access_url(control_plane: &CoderControlPlane, one: &Consumed, object: &Value) -> bool {
    let keys: Vec<&str> =
        object["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    control_plane.spec.env_from.iter().any(|source| {
        let name = match one.kind {
            Source::Secret => source.secret_ref.as_ref().map(|reference| &reference.name),
            Source::ConfigMap => source.config_map_ref.as_ref().map(|reference| &reference.name),
        };
        name == Some(&one.name) && build::provides_access_url(source.prefix.as_deref(), keys.iter().copied())
    })
}

/// Whether the pods that run are given the address by a variable of ours.
pub(super) fn sets_access_url(running: &Value) -> bool {
    let variables = container(running).and_then(|container| container["env"].as_array());
    variables.into_iter().flatten().any(|variable| variable["name"] == ACCESS_URL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_seen_who_gives_the_pods_their_address() {
        let running = |env: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "coder", "env": env}]}}}});
        assert!(!sets_access_url(&running(json!([]))) && !sets_access_url(&json!({})));
        assert!(sets_access_url(&running(json!([{"name": "CODER_ACCESS_URL"}]))));
    }
}
