//! Decides which image pods have from their control plane: the one that all of coderd runs. coderd accepts daemons and proxies
//! that are older than it and refuses newer ones, so that those that run are upgraded after it. Pure, and it never looks at a
//! status of ours.

use crate::control_plane_access::in_force::container;
use crate::controller::workload::rollout::{Rollout, rollout};
use serde_json::Value;

/// The image for pods: `asked` is what the control plane asks for, `deployment` its Deployment as it is now, if it is its
/// own, and `runs` what they run with. Where nothing runs there is nothing to keep.
pub(crate) fn followed(
    asked: Option<&str>,
    deployment: Option<&Value>,
    runs: Option<&str>,
) -> Option<String> {
    let of_pods = deployment.and_then(container).and_then(|container| container["image"].as_str());
    let is_complete = matches!(rollout(deployment), Rollout::Complete(_));
    let followed = of_pods.filter(|_| is_complete);
    followed.or(runs).or(asked).or(of_pods).map(str::to_owned)
}

/// Whether that depends on the Deployment: not while pods run what is asked for.
pub(crate) fn is_open(asked: Option<&str>, runs: Option<&str>) -> bool {
    asked.is_none() || asked != runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A Deployment of one replica whose template has this image, and so many pods of it that are available.
    fn deployment(image: &str, all: i64, updated: i64, available: i64) -> Value {
        json!({"metadata": {"generation": 2},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "coder", "image": image}]}}},
            "status": {"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available}})
    }

    #[test]
    fn pods_that_run_follow_when_all_of_coderd_runs_the_new_image() {
        let kept = |live: Option<&Value>| followed(Some("v2"), live, Some("v1"));
        let old = deployment("v1", 1, 1, 1);
        assert_eq!(kept(Some(&old)).as_deref(), Some("v1"), "its Deployment is not changed yet");
        let mut unseen = deployment("v2", 1, 1, 1);
        unseen["metadata"]["generation"] = json!(3);
        for under_way in
            [unseen, deployment("v2", 2, 1, 1), deployment("v2", 2, 1, 2), deployment("v2", 1, 1, 0)]
        {
            assert_eq!(kept(Some(&under_way)).as_deref(), Some("v1"), "{under_way}");
        }
        assert_eq!(kept(None).as_deref(), Some("v1"), "somebody else's, or gone");
        assert_eq!(kept(Some(&deployment("v2", 1, 1, 1))).as_deref(), Some("v2"));
    }

    #[test]
    fn the_first_pods_have_what_runs_or_is_asked_for() {
        assert_eq!(
            followed(Some("v2"), Some(&deployment("v1", 1, 1, 1)), None).as_deref(),
            Some("v1"),
            "it is suspended"
        );
        assert_eq!(followed(Some("v2"), Some(&deployment("v2", 1, 1, 0)), None).as_deref(), Some("v2"));
        assert_eq!(followed(Some("v2"), None, None).as_deref(), Some("v2"));
        assert_eq!(followed(None, Some(&deployment("v1", 1, 1, 0)), None).as_deref(), Some("v1"));
        assert_eq!(followed(None, None, None), None);
    }

    #[test]
    fn nothing_is_read_while_pods_run_what_is_asked_for() {
        assert!(!is_open(Some("v1"), Some("v1")));
        assert!(is_open(Some("v2"), Some("v1")) && is_open(Some("v1"), None) && is_open(None, None));
        assert!(is_open(None, Some("v1")));
    }
}
