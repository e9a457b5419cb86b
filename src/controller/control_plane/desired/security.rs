//! Decides how little the pods may do, field by field: what the spec says stands, and where it is silent they run as
//! user 1000 of the image, without privileges. Never makes the root file system read-only: coderd writes to its home.

use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

use super::origin::Origin;

/// User and group of the image of coderd.
const CODER: i64 = 1000;

/// The context of the pod, which its containers inherit.
pub(super) fn of_pod(origin: &Origin<'_>) -> PodSecurityContext {
    let mut context = origin.spec.pod_security_context.clone().unwrap_or_default();
    // Whoever asks for root means it: "not root" besides would keep the pod from starting.
    if context.run_as_user != Some(0) {
        context.run_as_non_root.get_or_insert(true);
    }
    context.run_as_user.get_or_insert(CODER);
    context.run_as_group.get_or_insert(CODER);
    context
        .seccomp_profile
        .get_or_insert_with(|| SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() });
    context
}

/// The context of a container, of coderd's and of each that runs before it.
pub(super) fn of_container(given: &Option<SecurityContext>) -> SecurityContext {
    let mut context = given.clone().unwrap_or_default();
    if context.run_as_user == Some(0) {
        context.run_as_non_root.get_or_insert(false);
    }
    // Kubernetes refuses a container that has every privilege and may not have more.
    if context.privileged != Some(true) {
        if !adds_administration(&context) {
            context.allow_privilege_escalation.get_or_insert(false);
        }
        let capabilities = context.capabilities.get_or_insert_with(Capabilities::default);
        capabilities.drop.get_or_insert_with(|| vec!["ALL".to_owned()]);
    }
    context
}

fn adds_administration(context: &SecurityContext) -> bool {
    let added = context.capabilities.as_ref().and_then(|capabilities| capabilities.add.as_ref());
    added.into_iter().flatten().any(|name| name.trim_start_matches("CAP_") == "SYS_ADMIN")
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use serde_json::{Value, json};

    fn pod_context(given: Value) -> Value {
        ControlPlane::test().with("podSecurityContext", given).pod()["securityContext"].clone()
    }

    fn container_context(given: Value) -> Value {
        ControlPlane::test().with("securityContext", given).container()["securityContext"].clone()
    }

    #[test]
    fn a_silent_spec_gives_a_pod_that_passes_the_restricted_standard() {
        let profile = json!({"type": "RuntimeDefault"});
        let pod =
            json!({"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": profile});
        assert_eq!(ControlPlane::test().pod()["securityContext"], pod);
        let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(ControlPlane::test().container()["securityContext"], container);
    }

    #[test]
    fn each_field_the_spec_gives_stands_and_the_others_are_filled_in() {
        let context = pod_context(json!({"runAsUser": 2000, "fsGroup": 3000}));
        assert_eq!((&context["runAsUser"], &context["fsGroup"]), (&json!(2000), &json!(3000)));
        assert_eq!((&context["runAsNonRoot"], &context["runAsGroup"]), (&json!(true), &json!(1000)));
        let unconfined =
            pod_context(json!({"seccompProfile": {"type": "Unconfined"}, "runAsNonRoot": false}));
        assert_eq!(unconfined["seccompProfile"], json!({"type": "Unconfined"}));
        assert_eq!(unconfined["runAsNonRoot"], false);
        let context = container_context(
            json!({"readOnlyRootFilesystem": true, "capabilities": {"add": ["NET_BIND_SERVICE"]}}),
        );
        let expected = json!({
            "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        });
        assert_eq!(context, expected);
        let kept = json!({"allowPrivilegeEscalation": true, "capabilities": {"drop": ["NET_RAW"]}});
        assert_eq!(container_context(kept.clone()), kept);
    }

    #[test]
    fn root_that_is_asked_for_is_not_contradicted() {
        assert!(pod_context(json!({"runAsUser": 0})).get("runAsNonRoot").is_none());
        assert_eq!(container_context(json!({"runAsUser": 0}))["runAsNonRoot"], false);
        assert_eq!(container_context(json!({"runAsUser": 0, "runAsNonRoot": true}))["runAsNonRoot"], true);
    }

    #[test]
    fn privileges_that_are_asked_for_are_not_contradicted() {
        assert_eq!(container_context(json!({"privileged": true})), json!({"privileged": true}));
        for name in ["SYS_ADMIN", "CAP_SYS_ADMIN"] {
            let context = container_context(json!({"capabilities": {"add": [name]}}));
            assert_eq!(context, json!({"capabilities": {"add": [name], "drop": ["ALL"]}}));
        }
    }

    #[test]
    fn containers_that_run_before_get_the_same_defaults() {
        let containers = json!([
            {"name": "plain", "image": "a"},
            {"name": "root", "image": "b", "securityContext": {"runAsUser": 0}},
        ]);
        let pod = ControlPlane::test().with("initContainers", containers).pod();
        let tight = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(
            pod["initContainers"][0],
            json!({"name": "plain", "image": "a", "securityContext": tight})
        );
        assert_eq!(pod["initContainers"][1]["securityContext"]["runAsNonRoot"], false);
    }
}
