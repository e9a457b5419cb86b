//! Grants coderd its rights where it runs workspaces, namespace by namespace, with the consent of each.
//! A namespace that refuses degrades one condition and nothing else.

use super::consent::{self, Answer};
use super::desired::{Child, Children, WorkspaceAccess};
use super::reconcile::{Reconciler, Subject};
use super::status::Observed;
use super::sweep;
use crate::controller::settle::{Settled, settle};
use crate::kubernetes::{CallError, Target};
use crds::well_known::{annotation, label};
use serde_json::Value;

impl Reconciler {
    /// Grants coderd its rights, namespace by namespace: one that refuses keeps nobody else from his. Those that hold
    /// are returned.
    pub(super) async fn settle_workspaces<'a>(
        &self,
        subject: &Subject,
        children: &'a Children,
        observed: &mut Observed,
    ) -> Vec<&'a WorkspaceAccess> {
        if children.workspace_access.is_empty() {
            observed.workspaces = None;
            return Vec::new();
        }
        let (mut troubles, mut granted) = (Vec::new(), Vec::new());
        for access in &children.workspace_access {
            match self.settle_workspace(subject, access).await {
                None => granted.push(access),
                Some(trouble) => {
                    // What is there already stays until it is known to be unwanted.
                    if trouble.0 == "Failed" {
                        granted.push(access);
                    }
                    troubles.push(trouble);
                }
            }
        }
        observed.workspaces = Some(troubles);
        granted
    }

    async fn settle_workspace(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
    ) -> Option<(&'static str, String)> {
        if let Err(trouble) = self.may_grant(subject, access).await {
            return Some(trouble);
        }
        let origin = subject.origin();
        for child in [&access.role, &access.binding] {
            let is_ours = |live: &Value| sweep::is_grant_of(live, origin) || is_earlier_grant(live, child);
            let place = &access.namespace;
            match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
                Settled::InPlace(_) => {}
                Settled::Conflict(message) => return Some(("ChildConflict", format!("{place}: {message}"))),
                Settled::Refused(message) => return Some(("Refused", format!("{place}: {message}"))),
                Settled::Failed(message) | Settled::Nowhere(message) => {
                    return Some(("Failed", format!("{place}: {message}")));
                }
            }
        }
        None
    }

    async fn may_grant(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
    ) -> Result<(), (&'static str, String)> {
        let (from, to) = (&subject.key.namespace, &access.namespace);
        if from == to {
            return Ok(());
        }
        let failed = |error: CallError| ("Failed", format!("{to}: {error}"));
        let target =
            Target { api_version: "v1", kind: "Namespace", plural: "namespaces", namespace: "", name: to };
        let namespace = self.kube.read(target).await.map_err(failed)?;
        let label = namespace
            .as_ref()
            .map(|namespace| namespace["metadata"]["labels"][label::WORKSPACES_FROM].as_str());
        let answer = label.map_or(Answer::Missing, Answer::Label);
        let held = self.kube.read(access.binding.target()).await.map_err(failed)?;
        let granted_before = held.is_some_and(|live| {
            sweep::is_grant_of(&live, subject.origin()) || is_earlier_grant(&live, &access.binding)
        });
        consent::objection(self.consent, from, to, answer, granted_before).map_or(Ok(()), Err)
    }
}

/// Whether a Role or RoleBinding without the mark of a uid was made for a control plane of this name before.
fn is_earlier_grant(live: &Value, child: &Child) -> bool {
    let labels = |object: &Value, name: &str| object["metadata"]["labels"][name].clone();
    let unmarked = live["metadata"]["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID].is_null();
    let same = |name| labels(live, name).is_string() && labels(live, name) == labels(&child.manifest, name);
    unmarked
        && [label::CONTROL_PLANE, label::CONTROL_PLANE_NAMESPACE, label::MANAGED_BY].into_iter().all(same)
}
