//! Removes what an earlier spec asked for and this one does not: rights in workspace namespaces, a way from outside, a
//! budget, a monitor. It removes only what carries our mark, by uid, and never takes what it may not list for absent.

use super::build::{Children, WorkspaceAccess};
use crate::controller::children::prune::{self, PruneCandidate, PruneCandidates, removed};
use crate::controller::children::{Child, ChildKind, drift};
use crate::controller::identity::Owner;
use crate::kubernetes::{CallError, Kube, Target};
use crds::names::instance_label;
use crds::well_known::{MANAGER, annotation, label};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What gives coderd its permissions, in the order in which it goes.
const GRANTS: [ChildKind; 2] = [ChildKind::RoleBinding, ChildKind::Role];

/// Prunes the children of which there is at most one and now none; returns whether none of them waits. A way in from outside
/// goes only when the one that takes its place stands, or none is asked for, which `exposed` tells: until then users have
/// no other.
pub(super) async fn optional_children(
    kube: &Kube,
    owner: Owner<'_>,
    wanted: &Children,
    exposed: bool,
) -> Result<bool, CallError> {
    let mut done = true;
    for kind in wanted.absent() {
        let name = &wanted.deployment.name;
        if exposed || !matches!(kind, ChildKind::Ingress | ChildKind::HttpRoute) {
            prune::absent(kube, owner, kind, name).await?;
        } else {
            let target = Target::of(kind.names(), owner.namespace, name);
            done &= !kube.read(target).await?.is_some_and(|live| drift::is_controlled_by(&live, owner.uid));
        }
    }
    Ok(done)
}

/// The rights of coderd that are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Where, and under which names.
    pub access: &'a [WorkspaceAccess],
    /// The namespaces where they are in place.
    pub in_place: &'a [&'a str],
    /// Whether every pod runs as the account that is asked for now.
    pub rolled: bool,
}

/// What becomes of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    /// It goes when what takes its place is there and in use.
    Wait,
    Remove,
}

impl Wanted<'_> {
    /// Nothing: everything goes.
    pub(super) const NOTHING: Wanted<'static> = Wanted { access: &[], in_place: &[], rolled: true };

    /// A namespace that is asked for keeps its grant. One for an account that the spec no longer names goes last.
    fn fate(&self, kind: ChildKind, namespace: &str, name: &str) -> Fate {
        let Some(access) = self.access.iter().find(|access| access.namespace == namespace) else {
            return Fate::Remove;
        };
        let same = |child: &Child| child.kind == kind && child.name == name;
        if same(&access.role) || same(&access.binding) {
            return Fate::Keep;
        }
        if self.rolled && self.in_place.contains(&namespace) { Fate::Remove } else { Fate::Wait }
    }
}

/// What is left of what is to go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Something goes later, when nothing needs it any more.
    pub waiting: bool,
    /// What was deleted and is still there.
    pub stuck: Vec<String>,
    /// Watched namespaces where there may be something, and we may not look.
    pub unread: BTreeSet<String>,
}

impl Left {
    /// Whether nothing is left.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// For a person; nothing if nothing is stuck.
    pub(super) fn told_stuck(&self) -> Option<String> {
        let all = self.stuck.join(", ");
        (!all.is_empty())
            .then(|| format!("{all} was deleted and is still there; see who holds it by a finalizer"))
    }

    /// For a person; nothing if everything could be looked at.
    pub(super) fn told_unread(&self) -> Option<String> {
        let all = self.unread.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        (!all.is_empty()).then(|| {
            format!(
                "coderd may have permissions in namespace {all}, where the operator may not look; give it its permissions \
                 there again, or take {all} out of --watch-namespace and look there yourself"
            )
        })
    }
}

/// Removes the rights of coderd that are not wanted, in all namespaces. One that cannot be removed keeps no other from
/// going, nor does a watched namespace where we may not look; the first failure is the answer. `concerns` tells of such a
/// namespace whether there may be any: what is left in another is an orphan when we may look there again.
pub(super) async fn grants(
    kube: &Kube,
    owner: Owner<'_>,
    wanted: Wanted<'_>,
    concerns: impl Fn(&str) -> bool,
) -> Result<Left, CallError> {
    let (mut left, mut unread, mut outcome) = (Left::default(), BTreeSet::new(), Ok(()));
    for kind in GRANTS {
        let all = Target::of(kind.names(), "", "");
        let (mut candidates, mut former) = (PruneCandidates::default(), PruneCandidates::default());
        let mut look = |metadata: ObjectMeta| {
            let live = json!({ "metadata": metadata });
            let is_ours = is_grant_of(&live, owner);
            if !is_ours && !is_former_grant(&live, owner) {
                return;
            }
            match wanted.fate(kind, text(&live, "/metadata/namespace"), text(&live, "/metadata/name")) {
                Fate::Keep => {}
                Fate::Wait => left.waiting = true,
                Fate::Remove if is_ours => candidates.note(metadata),
                Fate::Remove => former.note(metadata),
            }
        };
        for namespace in kube.scope().places() {
            let listed =
                kube.labelled_metadata(Target { namespace, ..all }, &selector(owner), &mut look).await;
            match listed {
                Err(error) if !namespace.is_empty() && error.is_forbidden() => {
                    unread.extend(concerns(namespace).then(|| namespace.to_owned()));
                    tracing::debug!(%error, "a watched namespace may not be looked at");
                }
                listed => outcome = outcome.and(listed),
            }
        }
        left.waiting |= candidates.more;
        for PruneCandidate { namespace, name, uid } in &candidates.now {
            match removed(kube, Target { namespace, name, ..all }, uid).await {
                Ok(true) => {}
                Ok(false) => left.stuck.push(format!("{} {namespace}/{name}", kind.as_str())),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        remove_former(kube, all, &former).await;
    }
    outcome.map(|()| Left { unread, ..left })
}

/// Removes what an earlier control plane of this name left. Anybody can make an object that looks like it, and hold it: this
/// one neither waits for it nor fails because of it.
async fn remove_former(kube: &Kube, all: Target<'_>, former: &PruneCandidates) {
    for PruneCandidate { namespace, name, uid } in &former.now {
        if let Err(error) = kube.remove(Target { namespace, name, ..all }, uid).await {
            tracing::warn!(kind = all.kind, namespace, name, %error, "a right of an earlier control plane is left");
        }
    }
}

/// Takes back every right that a control plane of this name has in a namespace, now or from before; whether all are
/// gone. One that cannot be removed keeps no other from going; the first failure is the answer.
pub(super) async fn revoke(kube: &Kube, owner: Owner<'_>, namespace: &str) -> Result<bool, CallError> {
    let mut outcome = Ok(true);
    for kind in GRANTS {
        let all = Target::of(kind.names(), namespace, "");
        let mut candidates = PruneCandidates::default();
        kube.labelled_metadata(all, &selector(owner), |metadata| candidates.note(metadata)).await?;
        for PruneCandidate { name, uid, .. } in &candidates.now {
            let gone = removed(kube, Target { name, ..all }, uid).await;
            outcome = outcome.and_then(|before| gone.map(|gone| before && gone));
        }
        outcome = outcome.map(|gone| gone && !candidates.more);
    }
    outcome
}

fn selector(owner: Owner<'_>) -> String {
    format!(
        "{}={MANAGER},{}={},{}={}",
        label::MANAGED_BY,
        label::CONTROL_PLANE,
        instance_label(owner.name),
        label::CONTROL_PLANE_NAMESPACE,
        owner.namespace
    )
}

fn text<'a>(live: &'a Value, path: &str) -> &'a str {
    live.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a Role or RoleBinding was made for this very control plane, not for an earlier one of its name.
pub(super) fn is_grant_of(live: &Value, owner: Owner<'_>) -> bool {
    let labels = &live["metadata"]["labels"];
    let marked = live["metadata"]["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID] == owner.uid;
    let ours = labels[label::CONTROL_PLANE] == instance_label(owner.name)
        && labels[label::CONTROL_PLANE_NAMESPACE] == owner.namespace;
    drift::is_controlled_by(live, owner.uid) || (marked && ours)
}

/// Whether it was made for an earlier control plane of this name. There is one object of a name, and it has another uid,
/// so that nobody but this one answers for it: coderd has these rights, whoever asked for them. What has an owner in the
/// cluster goes with that one.
fn is_former_grant(live: &Value, owner: Owner<'_>) -> bool {
    let metadata = &live["metadata"];
    let mark = metadata["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID].as_str();
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    mark.is_some_and(|mark| mark != owner.uid)
        && metadata["labels"][label::CONTROL_PLANE] == instance_label(owner.name)
        && metadata["labels"][label::CONTROL_PLANE_NAMESPACE] == owner.namespace
        && !owners.any(|owner| owner["controller"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(kind: ChildKind, namespace: &str, name: &str) -> Child {
        Child::new(kind, namespace, name, Value::Null)
    }

    #[test]
    fn a_namespace_that_is_asked_for_keeps_its_grant_and_one_for_a_former_account_goes_last() {
        let access = [WorkspaceAccess {
            namespace: "team".to_owned(),
            role: child(ChildKind::Role, "team", "new-perms"),
            binding: child(ChildKind::RoleBinding, "team", "new"),
        }];
        let fate = |in_place: &[&str], rolled, namespace, kind, name| {
            Wanted { access: &access, in_place, rolled }.fate(kind, namespace, name)
        };
        for (in_place, rolled) in [(&[][..], true), (&["team"], true), (&["team"], false)] {
            assert_eq!(fate(in_place, rolled, "team", ChildKind::Role, "new-perms"), Fate::Keep);
            assert_eq!(fate(in_place, rolled, "team", ChildKind::RoleBinding, "new"), Fate::Keep);
            assert_eq!(fate(in_place, rolled, "other", ChildKind::Role, "new-perms"), Fate::Remove);
        }
        assert_eq!(fate(&["team"], true, "team", ChildKind::Role, "old-perms"), Fate::Remove);
        assert_eq!(
            fate(&["team"], false, "team", ChildKind::Role, "old-perms"),
            Fate::Wait,
            "old pods use it"
        );
        assert_eq!(
            fate(&[], true, "team", ChildKind::Role, "old-perms"),
            Fate::Wait,
            "nothing takes its place"
        );
        assert_eq!(Wanted::NOTHING.fate(ChildKind::Role, "team", "new-perms"), Fate::Remove);
    }

    #[test]
    fn where_nobody_may_look_there_may_be_something_and_it_is_told_what_to_do() {
        let unread = ["b".repeat(63)].into();
        let left = Left { unread, ..Left::default() };
        assert!(!left.is_nothing() && left.told_stuck().is_none() && Left::default().told_unread().is_none());
        let told = left.told_unread().unwrap();
        assert!(told.contains("--watch-namespace") && told.len() <= 300, "{}: {told}", told.len());
    }

    #[test]
    fn a_grant_is_known_by_the_uid_of_its_control_plane() {
        let owner = Owner { namespace: "coder", name: "a", uid: "u1" };
        let grant = |uid: &str, name: &str| {
            json!({"metadata": {
                "labels": {"coder.com/control-plane": name, "coder.com/control-plane-namespace": "coder"},
                "annotations": {"coder.com/workspace-rbac-owner-uid": uid}}})
        };
        assert!(is_grant_of(&grant("u1", "a"), owner));
        assert!(!is_grant_of(&grant("u2", "a"), owner), "an earlier control plane of this name");
        assert!(is_former_grant(&grant("u2", "a"), owner), "for which this one answers");
        assert!(!is_former_grant(&grant("u1", "a"), owner) && !is_former_grant(&grant("u2", "b"), owner));
        let mut other = grant("u2", "a");
        other["metadata"]["ownerReferences"] = json!([{ "uid": "u2", "controller": true }]);
        assert!(!is_former_grant(&other, owner), "its owner takes it along");
        other["metadata"] = json!({ "labels": grant("u2", "a")["metadata"]["labels"] });
        assert!(!is_former_grant(&other, owner), "without a mark it is not of ours");
        assert!(!is_grant_of(&grant("u1", "b"), owner));
        let long = "x".repeat(70);
        let labelled = grant("u1", &instance_label(&long));
        assert!(is_grant_of(&labelled, Owner { name: &long, ..owner }), "labels hold 63 characters");
        assert!(is_grant_of(
            &json!({"metadata": {"ownerReferences": [{"uid": "u1", "controller": true}]}}),
            owner
        ));
    }
}
