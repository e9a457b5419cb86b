//! Grants coderd its rights where it runs workspaces, namespace by namespace, with the consent of each.
//! A refusal, whoever refuses, leaves the rights that are there as they are; only `none` on a namespace takes them back.

use super::build::WorkspaceAccess;
use super::consent::{self, Answer, Verdict};
use super::observed::{Grants, Ungranted};
use super::prune;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::subject::{Object, Subject};
use crate::controller::children::Child;
use crate::controller::children::apply::Applier;
use crate::controller::children::grants::{self, NotGranted, Rights};
use crate::controller::identity::{ObjectKey, Owner};
use crate::kubernetes::{CallError, Target};
use crds::well_known::{finalizer as name, label};
use serde_json::Value;

/// Why the rights in one namespace are not what the spec asks for: a reason and a message.
pub(super) type Trouble = (Reason, String);

impl Reconciler {
    /// Grants coderd its rights, namespace by namespace: one that refuses keeps nobody else from his. Returns what there is
    /// to say, and the namespaces where the rights are exactly what is asked for. `barred` tells why they are left as they
    /// are in one.
    pub(super) async fn apply_grants<'a>(
        &self,
        subject: &Subject,
        applier: Applier<'_>,
        wanted: &'a [WorkspaceAccess],
        barred: impl Fn(&WorkspaceAccess) -> Option<Trouble>,
    ) -> (Option<Grants>, Vec<&'a str>) {
        if wanted.is_empty() {
            return (None, Vec::new());
        }
        let (mut grants, mut in_place) = (Grants::default(), Vec::new());
        for access in wanted {
            let applied = match barred(access) {
                Some(trouble) => Err(trouble),
                None => self.apply_grant(subject, applier, access).await,
            };
            match applied {
                Ok(None) => in_place.push(access.namespace.as_str()),
                Ok(Some(note)) => grants.notes.push(note),
                Err((reason, message)) => {
                    let own_namespace = access.namespace == subject.object.key.namespace;
                    grants.troubles.push(Ungranted { own_namespace, reason, message });
                }
            }
        }
        (Some(grants), in_place)
    }

    /// Brings the rights in one namespace to what they should be. What there is to say of rights that work as they are.
    async fn apply_grant(
        &self,
        subject: &Subject,
        applier: Applier<'_>,
        access: &WorkspaceAccess,
    ) -> Result<Option<String>, Trouble> {
        if access.namespace != subject.object.key.namespace {
            self.agreed(subject, access).await?;
        }
        let WorkspaceAccess { namespace: place, role, binding } = access;
        let rights = Rights { holder: "coderd", place, role, binding };
        let applied = grants::apply(applier, rights, |live, child| is_ours(live, subject, child)).await;
        applied.map_err(|why| match why {
            NotGranted::Conflict(message) => (Reason::ChildConflict, message),
            NotGranted::Refused(message) => (Reason::Refused, message),
            NotGranted::Failed(message) => (Reason::Failed, message),
        })
    }

    /// Whether rights may be granted in another namespace, by its own word and because somebody takes them back.
    async fn agreed(&self, subject: &Subject, access: &WorkspaceAccess) -> Result<(), Trouble> {
        let (from, to) = (&subject.object.key.namespace, &access.namespace);
        let failed = |error: CallError| (Reason::Failed, format!("{to}: {error}"));
        let (namespace, unread) = match self.namespace(to).await {
            Ok(namespace) => (namespace, None),
            // It is none of those that this process looks at, or has taken back that we may.
            Err(error) if !self.kube.scope().is_cluster() && error.is_forbidden() => {
                (None, Some(error.to_string()))
            }
            Err(error) => return Err(failed(error)),
        };
        let (answer, before) = match &unread {
            Some(why) => (Answer::Unread(why), false),
            None => {
                let held = self.kube.read(access.binding.target()).await.map_err(failed)?;
                let before = held.is_some_and(|live| is_ours(&live, subject, &access.binding));
                (namespace.as_ref().map_or(Answer::Missing, |one| Answer::Label(says(one))), before)
            }
        };
        match consent::verdict(self.consent, from, to, answer, before) {
            Verdict::Grant if subject.object.has_finalizer() => Ok(()),
            Verdict::Grant => Err((
                Reason::FinalizerRefused,
                format!(
                    "{to}: no permissions are granted there until the finalizer {} is set",
                    name::CONTROL_PLANE
                ),
            )),
            Verdict::Freeze(reason, message) | Verdict::Withhold(reason, message) => Err((reason, message)),
            Verdict::Revoke(message) => {
                prune::revoke(&self.kube, subject.object.owner(), to).await.map_err(failed)?;
                Err((Reason::ConsentRefused, message))
            }
        }
    }

    /// Takes back what a control plane has in namespaces that refuse it, whatever its own spec says; whether all of it is
    /// gone.
    pub(super) async fn honour_refusals(&self, object: &Object) -> bool {
        let (owner, mut honoured) = (object.owner(), true);
        for place in self.grant_index.refused(&object.key) {
            match self.honour_refusal(&object.key, owner, &place).await {
                Ok(gone) => honoured &= gone,
                Err(error) => {
                    tracing::warn!(place, %error, "permissions that are refused could not be taken back");
                    honoured = false;
                }
            }
        }
        honoured
    }

    async fn honour_refusal(
        &self,
        key: &ObjectKey,
        owner: Owner<'_>,
        place: &str,
    ) -> Result<bool, CallError> {
        let namespace = self.namespace(place).await?;
        if !namespace.as_ref().is_some_and(|one| consent::refuses(says(one))) {
            return Ok(true);
        }
        let gone = prune::revoke(&self.kube, owner, place).await?;
        if gone {
            self.grant_index.forget(key, place);
        }
        tracing::info!(place, gone, "the namespace refuses workspaces: permissions there were taken back");
        Ok(gone)
    }

    async fn namespace(&self, name: &str) -> Result<Option<Value>, CallError> {
        let (kind, plural) = ("Namespace", "namespaces");
        self.kube.read(Target { api_version: "v1", kind, plural, namespace: "", name }).await
    }
}

/// What a namespace says about workspaces of others.
fn says(namespace: &Value) -> Option<&str> {
    namespace["metadata"]["labels"][label::WORKSPACES_FROM].as_str()
}

/// Whether a live Role or RoleBinding is this control plane's: made for it, or for one of its name before it. There is
/// one object of a name, so whoever is named by another uid is gone; what another owner holds is his.
fn is_ours(live: &Value, subject: &Subject, child: &Child) -> bool {
    prune::is_grant_of(live, subject.object.owner()) || is_earlier_grant(live, child)
}

fn is_earlier_grant(live: &Value, child: &Child) -> bool {
    let labels = |object: &Value, name: &str| object["metadata"]["labels"][name].clone();
    let same = |name| labels(live, name).is_string() && labels(live, name) == labels(&child.manifest, name);
    let owners = live["metadata"]["ownerReferences"].as_array();
    let owned = owners.into_iter().flatten().any(|owner| owner["controller"] == true);
    !owned && [label::CONTROL_PLANE, label::CONTROL_PLANE_NAMESPACE, label::MANAGED_BY].into_iter().all(same)
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::ControlPlane;
    use super::*;
    use crate::controller::children::{ChildKind, permissions};
    use crate::manifests::rbac::{Holder, On, ROLES};
    use crds::well_known::annotation;
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::json;

    /// Whoever applies the samples sees them work, with what is shipped.
    #[test]
    fn no_sample_asks_for_more_than_the_operator_may_hand_on() {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let everywhere = ROLES.iter().filter(|role| role.holder == Holder::GrantsEverywhere);
        let held = everywhere.flat_map(|role| role.grants).filter_map(|grant| match grant.on {
            On::Resources { group, resources } => Some(PolicyRule {
                api_groups: Some(owned(&[group])),
                resources: Some(owned(resources)),
                verbs: owned(grant.verbs),
                ..PolicyRule::default()
            }),
            On::Named { .. } | On::Urls(_) => None,
        });
        let (held, mut asked) = (held.collect::<Vec<_>>(), 0);
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize/samples")).unwrap() {
            let path = file.unwrap().path();
            let sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            if sample["kind"] != "CoderControlPlane" {
                continue;
            }
            for access in ControlPlane::test().with_spec_of(&sample).children().workspace_access {
                asked += 1;
                let beyond = permissions::beyond(&grants::rules(&access.role.manifest), &held);
                assert_eq!(permissions::words(&beyond, usize::MAX), "", "{}", path.display());
            }
        }
        assert!(asked > 1, "only {asked} Roles were looked at");
    }

    #[test]
    fn what_an_object_of_this_name_had_before_is_taken_over_and_what_is_owned_is_not() {
        let labels = json!({ label::CONTROL_PLANE: "coder", label::CONTROL_PLANE_NAMESPACE: "ns",
            label::MANAGED_BY: "coder-k8s" });
        let child = |labels: &Value| {
            Child::new(ChildKind::Role, "team", "role", json!({ "metadata": { "labels": labels } }))
        };
        let mut live = json!({ "metadata": { "labels": labels,
            "annotations": { annotation::WORKSPACE_RBAC_OWNER_UID: "before" } } });
        assert!(is_earlier_grant(&live, &child(&labels)));
        assert!(!is_earlier_grant(&live, &child(&json!({ label::CONTROL_PLANE: "other" }))));
        live["metadata"]["ownerReferences"] = json!([{ "uid": "before", "controller": true }]);
        assert!(!is_earlier_grant(&live, &child(&labels)), "whoever owns it takes it along");
    }
}
