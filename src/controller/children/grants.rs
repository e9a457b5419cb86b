//! Gives pods their rights in one namespace by a Role and a RoleBinding, and says why where they are not what is asked for.
//! A refusal, whoever refuses, leaves the rights that are there as they are.

use super::apply::{Applier, ChildState};
use super::{Child, drift, permissions};
use crate::kubernetes::CallError;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, from_value};

/// Rights in one namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights<'a> {
    /// Who has them, in a message.
    pub(crate) holder: &'static str,
    /// The namespace.
    pub(crate) place: &'a str,
    /// What may be done there.
    pub(crate) role: &'a Child,
    /// What gives it to the account.
    pub(crate) binding: &'a Child,
}

/// Why the rights in a namespace are not what is asked for, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// An object of our name belongs to somebody else.
    Conflict(String),
    /// The API server does not take it, or it is never handed on.
    Refused(String),
    /// It did not work this time.
    Failed(String),
}

/// Brings the rights to what they should be. What there is to say of rights that work as they are. `is_ours` tells whether a
/// live object is the one meant.
pub(crate) async fn apply(
    applier: Applier<'_>,
    rights: Rights<'_>,
    is_ours: impl Fn(&Value, &Child) -> bool,
) -> Result<Option<String>, NotGranted> {
    // Only admission refuses such a rule, and not every object has passed it.
    let never = permissions::never_handed_on(&rules(&rights.role.manifest));
    if !never.is_empty() {
        return not_handed_on(applier, rights, &never, None, is_ours).await;
    }
    for child in [rights.role, rights.binding] {
        let place = rights.place;
        match applier.apply(child, |live| is_ours(live, child)).await {
            ChildState::InPlace(_) => {}
            ChildState::Conflict(message) => return Err(NotGranted::Conflict(format!("{place}: {message}"))),
            ChildState::Refused(message, _) => return refused(applier, rights, &message, is_ours).await,
            ChildState::Failed(message, _) | ChildState::KindMissing(message) => {
                return Err(NotGranted::Failed(format!("{place}: {message}")));
            }
        }
    }
    Ok(None)
}

/// What it means that the API server does not take a Role or RoleBinding of ours.
async fn refused(
    applier: Applier<'_>,
    rights: Rights<'_>,
    message: &str,
    is_ours: impl Fn(&Value, &Child) -> bool,
) -> Result<Option<String>, NotGranted> {
    let lacking = permissions::refused(message);
    if lacking.is_empty() {
        return Err(NotGranted::Refused(format!("{}: {message}", rights.place)));
    }
    let account = applier.kube.grants_account();
    not_handed_on(applier, rights, &lacking, Some(&account), is_ours).await
}

/// What is said of rights that are left as they are because `account`, or nobody, may hand on some of them.
async fn not_handed_on(
    applier: Applier<'_>,
    rights: Rights<'_>,
    lacking: &[PolicyRule],
    account: Option<&str>,
    is_ours: impl Fn(&Value, &Child) -> bool,
) -> Result<Option<String>, NotGranted> {
    let failed = |error: CallError| NotGranted::Failed(format!("{}: {error}", rights.place));
    let role = applier.kube.read(rights.role.target()).await.map_err(failed)?;
    let binding = applier.kube.read(rights.binding.target()).await.map_err(failed)?;
    let ours = |live: &Option<Value>, child| live.as_ref().is_some_and(|live| is_ours(live, child));
    let bound =
        ours(&binding, rights.binding) && binding.as_ref().is_some_and(|live| is_bound(live, rights.binding));
    let live = role.as_ref().filter(|_| ours(&role, rights.role) && bound).map(rules);
    let told = explained(rights, account, lacking, live.as_deref());
    let message = match &told {
        Ok(message) => message.as_ref(),
        Err(NotGranted::Conflict(message) | NotGranted::Refused(message) | NotGranted::Failed(message)) => {
            Some(message)
        }
    };
    let all = permissions::words(lacking, usize::MAX);
    if message.is_none_or(|message| !message.contains(&all)) {
        tracing::info!(place = rights.place, lacking = all, "everything the operator may not hand on");
    }
    told
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

/// What to say when the rules `lacking`, which `account` does not hold, keep us from writing those that are wanted, where the
/// rules `live` are in force. Without an account they are rules that nobody hands on.
fn explained(
    rights: Rights<'_>,
    account: Option<&str>,
    lacking: &[PolicyRule],
    live: Option<&[PolicyRule]>,
) -> Result<Option<String>, NotGranted> {
    let (holder, place, wanted) = (rights.holder, rights.place, &rules(&rights.role.manifest));
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
        let begin = format!("{holder} has no permissions in namespace {place} yet");
        return Err(NotGranted::Refused(refused(&begin)));
    };
    if !permissions::beyond(wanted, live).is_empty() {
        let begin = format!("{holder}'s permissions in namespace {place} are unchanged");
        return Err(NotGranted::Refused(refused(&begin)));
    }
    let excess = permissions::beyond(live, wanted);
    if excess.is_empty() {
        return Ok(Some(fitted([lacking], |[lacking]| {
            let works = format!("{holder} keeps the permissions it had, which match the spec");
            format!("in namespace {place} {works}; {}", fix(&lacking))
        })));
    }
    let message = fitted([&excess, lacking], |[excess, lacking]| {
        let keeps = format!("{holder} keeps more than the spec asks for, {excess}");
        format!("in namespace {place} {keeps}: {}", fix(&lacking))
    });
    Err(NotGranted::Refused(message))
}

/// The rules of a Role.
pub(crate) fn rules(role: &Value) -> Vec<PolicyRule> {
    from_value(role["rules"].clone()).unwrap_or_default()
}

/// Whether a live RoleBinding gives the Role to the account that is meant.
fn is_bound(live: &Value, wanted: &Child) -> bool {
    ["roleRef", "subjects"].into_iter().all(|field| drift::holds(&live[field], &wanted.manifest[field]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::children::ChildKind;
    use serde_json::json;

    const ACCOUNT: &str = "coder-system/coder-k8s-grants";

    fn rule(resource: &str, verb: &str) -> PolicyRule {
        from_value(json!({ "apiGroups": [""], "resources": [resource], "verbs": [verb] })).unwrap_or_default()
    }

    /// What is said of these rules in a namespace, where those that are wanted are `wanted`.
    fn explained_in(
        place: &str,
        account: Option<&str>,
        lacking: &[PolicyRule],
        live: Option<&[PolicyRule]>,
        wanted: &[PolicyRule],
    ) -> Result<Option<String>, NotGranted> {
        let role = Child::new(ChildKind::Role, place, "role", json!({ "rules": wanted }));
        let binding = Child::new(ChildKind::RoleBinding, place, "binding", json!({}));
        let rights = Rights { holder: "coderd", place, role: &role, binding: &binding };
        explained(rights, account, lacking, live)
    }

    fn message(told: Result<Option<String>, NotGranted>) -> String {
        match told {
            Ok(note) => note.unwrap_or_default(),
            Err(NotGranted::Refused(message)) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_is_trouble_unless_what_is_wanted_is_in_force_already() {
        let (wanted, lacking) =
            ([rule("pods", "get"), rule("secrets", "delete")], [rule("secrets", "delete")]);
        let told = |live: Option<&[PolicyRule]>| explained_in("team", Some(ACCOUNT), &lacking, live, &wanted);
        for (live, begin) in [
            (None, "coderd has no permissions in namespace team yet"),
            (Some(&wanted[..1]), "coderd's permissions in namespace team are unchanged"),
        ] {
            let message = message(Err(told(live).unwrap_err()));
            let fix = "the operator may not grant: delete secrets; bind a ClusterRole with it to ServiceAccount \
                       coder-system/coder-k8s-grants, or remove it from spec.rbac.extraRules";
            assert_eq!(message, format!("{begin}: {fix}"));
        }
        assert!(told(Some(&wanted)).unwrap().is_some_and(|note| note.contains("delete secrets")));
        let more = [&wanted[..], &[rule("nodes", "get")]].concat();
        let message = message(Err(told(Some(&more)).unwrap_err()));
        assert!(message.contains("more than the spec asks for, get nodes:"), "{message}");
    }

    #[test]
    fn however_much_is_lacking_the_message_ends_with_what_to_do() {
        let many: Vec<PolicyRule> = (0..40).map(|number| rule(&format!("things{number}"), "get")).collect();
        let more = [&many[..], &[rule("nodes", "get")], &many[..]].concat();
        for live in [None, Some(&many[..1]), Some(&many[..]), Some(&more[..])] {
            for (account, end) in [(Some(ACCOUNT), ACCOUNT), (None, "remove it from")] {
                let message = message(explained_in(&"n".repeat(50), account, &many, live, &many));
                assert!(message.contains(end) && message.contains(" more"), "{message}");
                assert!(message.len() <= LONGEST, "{}: {message}", message.len());
            }
        }
    }
}
