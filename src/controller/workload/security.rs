//! Decides how little the pods may do, field by field: what the spec says stands, and where it is silent they run as
//! user 1000 of the image, without privileges. Never makes the root file system read-only: coderd writes to its home.

use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

/// User and group of the image of coderd.
pub(super) const CODER: i64 = 1000;

/// The context of the pod, which its containers inherit.
pub(crate) fn of_pod(given: Option<&PodSecurityContext>) -> PodSecurityContext {
    let mut context = given.cloned().unwrap_or_default();
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
pub(crate) fn of_container(given: Option<&SecurityContext>) -> SecurityContext {
    let mut context = given.cloned().unwrap_or_default();
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
