//! Reads whether admission is disabled in the namespace of a control plane, and if so what is live of it.
//! What follows is decided in `held`; nothing is written here.

use super::desired::{Child, Children};
use super::held::{self, Held};
use super::reconcile::{Reconciler, Subject};
use super::{kept, sweep};
use crate::controller::drift;
use crate::kubernetes::{CallError, Target};
use crds::CoderControlPlaneSpec;
use serde_json::{Value, from_value};

impl Reconciler {
    /// Whether our webhooks are switched off in a namespace now.
    pub(super) async fn is_admission_disabled(&self, name: &str) -> Result<bool, CallError> {
        let (kind, plural) = ("Namespace", "namespaces");
        let target = Target { api_version: "v1", kind, plural, namespace: "", name };
        Ok(held::is_admission_disabled(self.kube.read(target).await?.as_ref()))
    }

    /// What is held back; nothing where admission is in force.
    pub(super) async fn held(
        &self,
        subject: &Subject,
        children: &Children,
    ) -> Result<Option<Held>, CallError> {
        if !self.is_admission_disabled(&subject.key.namespace).await? {
            return Ok(None);
        }
        let mut live = Vec::new();
        for child in children.all() {
            live.push(self.kube.read(child.target()).await?.filter(|live| is_of(live, child, subject)));
        }
        Ok(Some(held::held(children, &live)))
    }
}

/// Whether a live child is of this very uid: a mark that anybody can write is not enough here.
fn is_of(live: &Value, child: &Child, subject: &Subject) -> bool {
    match child.kind {
        "Role" | "RoleBinding" => sweep::is_grant_of(live, subject.origin()),
        _ => drift::is_controlled_by(live, &subject.uid),
    }
}

/// The spec with the environment of the pods that run: where the database is, as long as their Deployment is left as it
/// is.
pub(super) fn in_force(spec: &CoderControlPlaneSpec, deployment: Option<&Value>) -> CoderControlPlaneSpec {
    let container = deployment.and_then(kept::container);
    let of = |field: &str| container.map(|container| container[field].clone()).unwrap_or_default();
    CoderControlPlaneSpec {
        extra_env: from_value(of("env")).unwrap_or_default(),
        env_from: from_value(of("envFrom")).unwrap_or_default(),
        certs: None,
        ..spec.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_database_is_the_one_of_the_pods_that_run() {
        let spec = |value: Value| from_value::<CoderControlPlaneSpec>(value).unwrap();
        let asked = spec(json!({ "image": "x", "extraEnv": [{ "name": "URL", "value": "evil" }],
            "envFrom": [{ "secretRef": { "name": "payroll" } }], "certs": { "secrets": [] } }));
        let deployment = json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "coder", "env": [{ "name": "URL", "value": "good" }] }] } } } });
        let expected = spec(json!({ "image": "x", "extraEnv": [{ "name": "URL", "value": "good" }] }));
        assert_eq!(in_force(&asked, Some(&deployment)), expected);
        assert_eq!(in_force(&asked, None), spec(json!({ "image": "x" })), "nothing runs");
    }
}
