//! Decides which access a change requires of the user who makes it, and which SubjectAccessReviews tell whether it is held.
//! Never asks: the webhook sends the reviews and gives back the answers.

mod access_reviews;
mod adoption;
mod changes;
mod exposure;
mod grants;
mod kept_secret;
mod pod_security;
mod run_pods;
mod sent_secrets;

use std::borrow::Cow;

use crds::well_known::annotation::ACTING;
use serde_json::Value;

use crate::kind::Kind;
use crate::schema;

pub use access_reviews::{AccessReviews, MAX_REVIEWS};
pub use changes::HARMLESS;
pub(crate) use pod_security::privileges_of_main_container;

use access_reviews::MAX_REVIEWS_PER_NAMESPACE;

/// What one SubjectAccessReview asks the API server: may the user do this?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessCheck {
    /// For example `get`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// For example `secrets`.
    pub resource: String,
    /// For example `token`; empty for none.
    pub subresource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object; empty asks for all of them.
    pub name: String,
}

impl AccessCheck {
    fn new(verb: &str, group: &str, resource: &str, namespace: &str) -> Self {
        let [verb, group, resource, namespace] = [verb, group, resource, namespace].map(str::to_owned);
        Self { verb, group, resource, namespace, subresource: String::new(), name: String::new() }
    }

    fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    fn create_pods(namespace: &str) -> Self {
        Self::new("create", "", "pods", namespace)
    }

    /// In words: `get secrets/coder-license in namespace coder`.
    pub(crate) fn in_words(&self) -> String {
        let mut resource = self.resource.clone();
        for (mark, part) in [("/", &self.subresource), (".", &self.group)] {
            if !part.is_empty() {
                resource.push_str(mark);
                resource.push_str(part);
            }
        }
        let name = if self.name.is_empty() {
            String::new()
        } else {
            format!(" {}", crate::text::quoted(&self.name))
        };
        format!("{} {resource}{name} in namespace {}", self.verb, crate::text::shown(&self.namespace))
    }
}

/// Access that a change requires of the user who makes it, because it adds as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredAccess {
    /// Path of the field that adds it.
    pub field: String,
    /// Code of the rule that requires it.
    pub code: &'static str,
    /// Each of these is enough on its own; they are asked in this order.
    pub(crate) alternatives: Vec<AccessCheck>,
    /// All of these together are enough too; asked last. Empty where there is no such way.
    pub(crate) all_of: Vec<AccessCheck>,
    /// There would be such a way, but with more questions than may be asked.
    pub(crate) too_many: bool,
}

impl RequiredAccess {
    fn any(field: impl Into<String>, code: &'static str, alternatives: Vec<AccessCheck>) -> Self {
        Self { field: field.into(), code, alternatives, all_of: Vec::new(), too_many: false }
    }
}

/// The access that a change from `old` to `new` requires, or the creation of `new` where there is no `old`. What the old
/// object already has is not required again.
pub fn required_access(old: Option<&Value>, new: &Value, namespace: &str, kind: Kind) -> Vec<RequiredAccess> {
    let new = schema::without_nulls(kind, new);
    let old = old.map(|old| schema::without_nulls(kind, old));
    let (old, new) = (old.as_deref(), &*new);
    let mut required = run_pods::added(kind, old, new, namespace);
    required.extend(adoption::added(kind, old, new, namespace));
    required.extend(pod_security::added(old, new, namespace));
    required.extend(sent_secrets::added(kind, old, new, namespace));
    required.extend(kept_secret::added(kind, old, new, namespace));
    required.extend(exposure::added(old, new, namespace));
    required.extend(grants::added(kind, old, new, namespace));
    required
}

/// One row of the authorization table, for the documentation.
pub(crate) struct Row {
    /// Code of the rule.
    pub(crate) code: &'static str,
    /// Field or fields.
    pub(crate) fields: Cow<'static, str>,
    /// What is asked, and where.
    pub(crate) required: &'static str,
    /// What is enough instead.
    pub(crate) instead: &'static str,
}

/// Names as a sentence lists them: each in code, the last after `and`.
fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.pop() {
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} and {last}", names.join(", ")),
        None => String::new(),
    }
}

/// The fields that CODER0507 is about.
const OUTSIDE_RESTRICTED: &str = "whatever the Pod Security level `restricted` forbids, added or left to other code: `spec.volumes[]` \
    with a source other than configMap, csi, downwardAPI, emptyDir, ephemeral, image, \
    persistentVolumeClaim, projected or secret; in `spec.securityContext`, `spec.podSecurityContext` and \
    `spec.initContainers[].securityContext`: privileged, allowPrivilegeEscalation, capabilities added \
    other than NET_BIND_SERVICE or not all dropped, procMount, runAsNonRoot: false, runAsUser: 0, \
    profiles of seccomp and AppArmor (also by `spec.podAnnotations`), seLinuxOptions, sysctls, \
    windowsOptions.hostProcess; in `spec.initContainers[]` and `spec.lifecycle`: hostPort, and the host \
    of a probe or hook; also `spec.priorityClassName`";

/// Which field requires which access.
pub(crate) fn table() -> Vec<Row> {
    let runs = format!(
        "a new object; every change of `spec` except of {}; of a CoderWorkspaceProxy also `spec.expose`, where it changes the \
         addresses that pods are told; the annotations {}, added or changed",
        listed(changes::without_run_pods()),
        listed(ACTING.into_iter()),
    );
    vec![
    Row {
        code: "CODER0509",
        fields: runs.into(),
        required: "`create pods` in the namespace of the object",
        instead: "`create deployments.apps` there",
    },
    adoption::row(),
    Row {
        code: "CODER0507",
        fields: OUTSIDE_RESTRICTED.into(),
        required: "`create pods` in the namespace of the object",
        instead: "nothing",
    },
    Row {
        code: "CODER0506",
        fields: "of a CoderProvisioner: `spec.bootstrap.credentialsSecretRef`, and the control plane it is sent to; of a \
                 CoderWorkspaceProxy: `spec.bootstrap.credentialsSecretRef`, `spec.proxySessionTokenSecretRef`, \
                 `spec.bootstrap.generatedTokenSecretName`, `spec.registration.tokenSecretName`, and the addresses and \
                 the control plane they are sent to".into(),
        required: "`get` on the Secret in the namespace of the object",
        instead: "nothing",
    },
    Row {
        code: "CODER0512",
        fields: "of a CoderProvisioner: `spec.key.secretName` and `spec.key.secretKey`; of a CoderWorkspaceProxy: \
                 `spec.registration.tokenSecretName` and `spec.bootstrap.generatedTokenSecretName`; given or changed to \
                 anything but the default".into(),
        required: "`create secrets` in the namespace of the object",
        instead: "nothing",
    },
    Row {
        code: "CODER0510",
        fields: "`spec.service` of a type other than ClusterIP, and its annotations; `spec.expose.ingress`; \
                 `spec.expose.gateway`".into(),
        required: "`create` on `services`, `ingresses.networking.k8s.io` or `httproutes.gateway.networking.k8s.io` in \
                   the namespace of the object",
        instead: "nothing",
    },
    Row {
        code: "CODER0502",
        fields: "`spec.rbac.workspacePerms`, `spec.rbac.enableDeployments`, `spec.rbac.extraRules`".into(),
        required: "each verb on each resource that is added, in the namespace of the object and in each workspace \
                   namespace",
        instead: "`escalate` or `bind` on `roles.rbac.authorization.k8s.io` there",
    },
    Row {
        code: "CODER0503",
        fields: "`spec.rbac.workspaceNamespaces[]`".into(),
        required: "everything that the Role grants, in each namespace that is added",
        instead: "`escalate` or `bind` on `roles.rbac.authorization.k8s.io` there",
    },
]
}

#[cfg(test)]
mod tests;
