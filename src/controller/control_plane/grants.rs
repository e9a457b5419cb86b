//! Grants coderd its rights where it runs workspaces, namespace by namespace, with the consent of each.
//! A refusal, whoever refuses, leaves the rights that are there as they are; only `none` on a namespace takes them back.

use super::build::WorkspaceAccess;
use super::consent::{self, Answer, Verdict};
use super::observed::{Grants, Ungranted};
use super::permissions;
use super::prune;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::subject::{Object, Subject};
use crate::controller::children::apply::{Applier, ChildState};
use crate::controller::children::{Child, drift};
use crate::controller::identity::{ObjectKey, Owner};
use crate::kubernetes::{CallError, Target};
use crds::well_known::{finalizer as name, label};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, from_value};

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
        // Only admission refuses such a rule, and not every object has passed it.
        let never = permissions::never_handed_on(&rules(&access.role.manifest));
        if !never.is_empty() {
            return self.not_handed_on(subject, access, &never, None).await;
        }
        for child in [&access.role, &access.binding] {
            let is_ours = |live: &Value| is_ours(live, subject, child);
            let place = &access.namespace;
            match applier.apply(child, is_ours).await {
                ChildState::InPlace(_) => {}
                ChildState::Conflict(message) => {
                    return Err((Reason::ChildConflict, format!("{place}: {message}")));
                }
                ChildState::Refused(message, _) => return self.refused(subject, access, &message).await,
                ChildState::Failed(message, _) | ChildState::KindMissing(message) => {
                    return Err((Reason::Failed, format!("{place}: {message}")));
                }
            }
        }
        Ok(None)
    }

    /// Whether rights may be granted in another namespace, by its own word and because somebody takes them back.
    async fn agreed(&self, subject: &Subject, access: &WorkspaceAccess) -> Result<(), Trouble> {
        let (from, to) = (&subject.object.key.namespace, &access.namespace);
        let failed = |error: CallError| (Reason::Failed, format!("{to}: {error}"));
        let namespace = self.namespace(to).await.map_err(failed)?;
        let answer = namespace.as_ref().map_or(Answer::Missing, |one| Answer::Label(says(one)));
        let held = self.kube.read(access.binding.target()).await.map_err(failed)?;
        let before = held.is_some_and(|live| is_ours(&live, subject, &access.binding));
        match consent::verdict(self.consent, from, to, answer, before) {
            Verdict::Grant if subject.object.has_finalizer() => Ok(()),
            Verdict::Grant => Err((
                Reason::FinalizerRefused,
                format!(
                    "{to}: no permissions are granted there until the finalizer {} is set",
                    name::CONTROL_PLANE
                ),
            )),
            Verdict::Freeze(message) => Err((Reason::GrantFrozen, message)),
            Verdict::Withhold(reason, message) => Err((reason, message)),
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
                    tracing::warn!(place, %error, "rights that are refused could not be taken back");
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
        tracing::info!(place, gone, "the namespace refuses workspaces: rights there were taken back");
        Ok(gone)
    }

    async fn namespace(&self, name: &str) -> Result<Option<Value>, CallError> {
        let (kind, plural) = ("Namespace", "namespaces");
        self.kube.read(Target { api_version: "v1", kind, plural, namespace: "", name }).await
    }

    /// What it means that the API server does not take a Role or RoleBinding of ours.
    async fn refused(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
        message: &str,
    ) -> Result<Option<String>, Trouble> {
        let lacking = permissions::refused(message);
        if lacking.is_empty() {
            return Err((Reason::Refused, format!("{}: {message}", access.namespace)));
        }
        self.not_handed_on(subject, access, &lacking, Some(&self.kube.grants_account())).await
    }

    /// What is said of rights that are left as they are because `account`, or nobody, may hand on some of them.
    async fn not_handed_on(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
        lacking: &[PolicyRule],
        account: Option<&str>,
    ) -> Result<Option<String>, Trouble> {
        let place = &access.namespace;
        let failed = |error: CallError| (Reason::Failed, format!("{place}: {error}"));
        let role = self.kube.read(access.role.target()).await.map_err(failed)?;
        let binding = self.kube.read(access.binding.target()).await.map_err(failed)?;
        let ours =
            |live: &Option<Value>, child| live.as_ref().is_some_and(|live| is_ours(live, subject, child));
        let bound = ours(&binding, &access.binding)
            && binding.as_ref().is_some_and(|live| is_bound(live, &access.binding));
        let live = role.as_ref().filter(|_| ours(&role, &access.role) && bound).map(rules);
        let told = explained(place, account, lacking, live.as_deref(), &rules(&access.role.manifest));
        let message = told.as_ref().map_or_else(|(_, message)| Some(message), Option::as_ref);
        let all = permissions::words(lacking, usize::MAX);
        if message.is_none_or(|message| !message.contains(&all)) {
            tracing::info!(place, lacking = all, "everything the operator may not hand on");
        }
        told
    }
}

/// Characters of a message, with room for the number of those that are not told.
const LONGEST: usize = 280;
/// Characters that say how many rules a list has beyond those it names.
const MORE: usize = " and 99 more".len();

/// A text with lists of rules in it, as many as there is room for.
fn fitted<const N: usize>(lists: [&[PolicyRule]; N], text: impl Fn([String; N]) -> String) -> String {
    let rest = text([const { String::new() }; N]).len() + N * MORE;
    let room = LONGEST.saturating_sub(rest) / N;
    text(lists.map(|list| permissions::words(list, room.max(20))))
}

/// What to say when the rules `lacking`, which `account` does not hold, keep us from writing those `wanted`, where the
/// rules `live` are in force. Without an account they are rules that nobody hands on.
fn explained(
    place: &str,
    account: Option<&str>,
    lacking: &[PolicyRule],
    live: Option<&[PolicyRule]>,
    wanted: &[PolicyRule],
) -> Result<Option<String>, Trouble> {
    let code = if permissions::names_rbac(lacking) { " (CODER0501)" } else { "" };
    let fix = |lacking: &str| match account {
        Some(account) => format!(
            "the operator may not grant: {lacking}; bind a ClusterRole with it to ServiceAccount {account}"
        ),
        None => format!("the operator never grants: {lacking}; remove it from spec.rbac.extraRules{code}"),
    };
    let or = if account.is_some() { ", or remove it from spec.rbac.extraRules" } else { "" };
    let refused = |begin: &str| fitted([lacking], |[lacking]| format!("{begin}: {}{or}", fix(&lacking)));
    let Some(live) = live else {
        return Err((
            Reason::Refused,
            refused(&format!("coderd has no permissions in namespace {place} yet")),
        ));
    };
    if !permissions::beyond(wanted, live).is_empty() {
        let begin = format!("coderd's permissions in namespace {place} are unchanged");
        return Err((Reason::Refused, refused(&begin)));
    }
    let excess = permissions::beyond(live, wanted);
    if excess.is_empty() {
        return Ok(Some(fitted([lacking], |[lacking]| {
            let works = "coderd keeps the permissions it had, which match the spec";
            format!("in namespace {place} {works}; {}", fix(&lacking))
        })));
    }
    let message = fitted([&excess, lacking], |[excess, lacking]| {
        format!("in namespace {place} coderd keeps more than the spec asks for, {excess}: {}", fix(&lacking))
    });
    Err((Reason::Refused, message))
}

/// What a namespace says about workspaces of others.
fn says(namespace: &Value) -> Option<&str> {
    namespace["metadata"]["labels"][label::WORKSPACES_FROM].as_str()
}

fn rules(role: &Value) -> Vec<PolicyRule> {
    from_value(role["rules"].clone()).unwrap_or_default()
}

/// Whether a live RoleBinding gives the Role to the account that is meant.
fn is_bound(live: &Value, wanted: &Child) -> bool {
    ["roleRef", "subjects"].into_iter().all(|field| drift::holds(&live[field], &wanted.manifest[field]))
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
    use crate::controller::children::ChildKind;
    use crate::manifests::rbac::{Holder, On, ROLES};
    use crds::well_known::annotation;
    use serde_json::json;

    const ACCOUNT: &str = "coder-system/coder-k8s-grants";

    fn rule(resource: &str, verb: &str) -> PolicyRule {
        from_value(json!({ "apiGroups": [""], "resources": [resource], "verbs": [verb] })).unwrap_or_default()
    }

    #[test]
    fn a_refusal_is_trouble_unless_what_is_wanted_is_in_force_already() {
        let (wanted, lacking) =
            ([rule("pods", "get"), rule("secrets", "delete")], [rule("secrets", "delete")]);
        let told = |live: Option<&[PolicyRule]>| explained("team", Some(ACCOUNT), &lacking, live, &wanted);
        for (live, begin) in [
            (None, "coderd has no permissions in namespace team yet"),
            (Some(&wanted[..1]), "coderd's permissions in namespace team are unchanged"),
        ] {
            let (reason, message) = told(live).unwrap_err();
            assert_eq!(reason, Reason::Refused);
            let fix = "the operator may not grant: delete secrets; bind a ClusterRole with it to ServiceAccount \
                       coder-system/coder-k8s-grants, or remove it from spec.rbac.extraRules";
            assert_eq!(message, format!("{begin}: {fix}"));
        }
        assert!(told(Some(&wanted)).unwrap().is_some_and(|note| note.contains("delete secrets")));
        let more = [&wanted[..], &[rule("nodes", "get")]].concat();
        let (_, message) = told(Some(&more)).unwrap_err();
        assert!(message.contains("more than the spec asks for, get nodes:"), "{message}");
    }

    #[test]
    fn however_much_is_lacking_the_message_ends_with_what_to_do() {
        let many: Vec<PolicyRule> = (0..40).map(|number| rule(&format!("things{number}"), "get")).collect();
        let more = [&many[..], &[rule("nodes", "get")], &many[..]].concat();
        for live in [None, Some(&many[..1]), Some(&many[..]), Some(&more[..])] {
            for (account, end) in [(Some(ACCOUNT), ACCOUNT), (None, "remove it from")] {
                let told = explained(&"n".repeat(50), account, &many, live, &many);
                let message = told.map_or_else(|(_, message)| message, Option::unwrap_or_default);
                assert!(message.contains(end) && message.contains(" more"), "{message}");
                assert!(message.len() <= LONGEST, "{}: {message}", message.len());
            }
        }
    }

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
                let beyond = permissions::beyond(&rules(&access.role.manifest), &held);
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
