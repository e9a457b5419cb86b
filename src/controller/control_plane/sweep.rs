//! Removes what an earlier spec asked for and this one does not: rights in workspace namespaces, a way from outside, a
//! budget, a monitor. It removes only what carries our mark, by uid.

use super::desired::{Child, Children, WorkspaceAccess};
use crate::controller::drift;
use crate::kubernetes::{CallError, Kube, Target};
use crds::names::instance_label;
use crds::well_known::{MANAGER, annotation, label};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

/// Kinds of which a control plane has at most one, and sometimes none: apiVersion, kind, plural.
const OPTIONAL: [(&str, &str, &str); 4] = [
    ("networking.k8s.io/v1", "Ingress", "ingresses"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"),
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const GRANTS: [(&str, &str); 2] = [("RoleBinding", "rolebindings"), ("Role", "roles")];

/// Which control plane.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Removes the optional children that are not wanted now. A way from outside goes only when the one that takes its place
/// stands, or none is asked for, which `exposed` tells: until then users have no other.
pub async fn optional_children(
    kube: &Kube,
    origin: Origin<'_>,
    wanted: &Children,
    exposed: bool,
) -> Result<(), CallError> {
    let wanted = [&wanted.ingress, &wanted.http_route, &wanted.disruption_budget, &wanted.service_monitor];
    for ((api_version, kind, plural), child) in OPTIONAL.into_iter().zip(wanted) {
        let is_way = ["Ingress", "HTTPRoute"].contains(&kind);
        if child.is_some() || (is_way && !exposed) {
            continue;
        }
        let target = Target { api_version, kind, plural, namespace: origin.namespace, name: origin.name };
        let live = kube.read(target).await?.filter(|live| drift::is_controlled_by(live, origin.uid));
        if let Some(uid) = live.as_ref().and_then(uid) {
            kube.remove(target, uid).await?;
        }
    }
    Ok(())
}

/// The rights of coderd that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
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
    pub const NOTHING: Wanted<'static> = Wanted { access: &[], in_place: &[], rolled: true };

    /// A namespace that is asked for keeps its grant. One for an account that the spec no longer names goes last.
    fn fate(&self, kind: &str, namespace: &str, name: &str) -> Fate {
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
pub struct Left {
    /// Something goes later, when nothing needs it any more.
    pub waiting: bool,
    /// What was deleted and is still there.
    pub stuck: Vec<String>,
}

impl Left {
    /// Whether nothing is left.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// For a person; nothing if nothing is stuck.
    pub fn told(&self) -> Option<String> {
        let all = self.stuck.join(", ");
        (!all.is_empty())
            .then(|| format!("{all} was deleted and is still there; see who holds it by a finalizer"))
    }
}

/// An object that is to go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Objects that are to go, as many as are removed in one reconcile: anybody can make objects that look like ours.
#[derive(Debug, Default)]
pub(super) struct ToGo {
    pub(super) now: Vec<Doomed>,
    /// Whether there are more than that.
    pub(super) more: bool,
}

impl ToGo {
    /// Objects that are removed in one reconcile.
    const MOST: usize = 500;

    /// Notes an object, of which nothing is kept but how it is removed.
    pub(super) fn note(&mut self, metadata: ObjectMeta) {
        if self.now.len() >= Self::MOST {
            self.more = true;
            return;
        }
        let text = Option::unwrap_or_default;
        self.now.push(Doomed {
            namespace: text(metadata.namespace),
            name: text(metadata.name),
            uid: text(metadata.uid),
        });
    }
}

/// Removes the rights of coderd that are not wanted, in all namespaces. One that cannot be removed keeps no other from
/// going; the first failure is the answer.
pub async fn grants(kube: &Kube, origin: Origin<'_>, wanted: Wanted<'_>) -> Result<Left, CallError> {
    let (mut left, mut outcome) = (Left::default(), Ok(()));
    for (kind, plural) in GRANTS {
        let all = Target { api_version: RBAC, kind, plural, namespace: "", name: "" };
        let mut to_go = ToGo::default();
        let look = |metadata: ObjectMeta| {
            let live = json!({ "metadata": metadata });
            if !is_grant_of(&live, origin) && !is_former_grant(&live, origin) {
                return;
            }
            match wanted.fate(kind, text(&live, "/metadata/namespace"), text(&live, "/metadata/name")) {
                Fate::Keep => {}
                Fate::Wait => left.waiting = true,
                Fate::Remove => to_go.note(metadata),
            }
        };
        kube.labelled_metadata(all, &selector(origin), look).await?;
        left.waiting |= to_go.more;
        for Doomed { namespace, name, uid } in &to_go.now {
            match removed(kube, Target { namespace, name, ..all }, uid).await {
                Ok(true) => {}
                Ok(false) => left.stuck.push(format!("{kind} {namespace}/{name}")),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
    }
    outcome.map(|()| left)
}

/// Takes back every right that a control plane of this name has in a namespace, now or from before; whether all are
/// gone. One that cannot be removed keeps no other from going; the first failure is the answer.
pub async fn revoke(kube: &Kube, origin: Origin<'_>, namespace: &str) -> Result<bool, CallError> {
    let mut outcome = Ok(true);
    for (kind, plural) in GRANTS {
        let all = Target { api_version: RBAC, kind, plural, namespace, name: "" };
        let mut to_go = ToGo::default();
        kube.labelled_metadata(all, &selector(origin), |metadata| to_go.note(metadata)).await?;
        for Doomed { name, uid, .. } in &to_go.now {
            let gone = removed(kube, Target { name, ..all }, uid).await;
            outcome = outcome.and_then(|before| gone.map(|gone| before && gone));
        }
        outcome = outcome.map(|gone| gone && !to_go.more);
    }
    outcome
}

/// Removes an object and returns whether it is gone.
async fn removed(kube: &Kube, target: Target<'_>, uid: &str) -> Result<bool, CallError> {
    kube.remove(target, uid).await?;
    Ok(kube.read(target).await?.is_none_or(|again| self::uid(&again) != Some(uid)))
}

fn selector(origin: Origin<'_>) -> String {
    format!(
        "{}={MANAGER},{}={},{}={}",
        label::MANAGED_BY,
        label::CONTROL_PLANE,
        instance_label(origin.name),
        label::CONTROL_PLANE_NAMESPACE,
        origin.namespace
    )
}

fn text<'a>(live: &'a Value, path: &str) -> &'a str {
    live.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a Role or RoleBinding was made for this very control plane, not for an earlier one of its name.
pub fn is_grant_of(live: &Value, origin: Origin<'_>) -> bool {
    let labels = &live["metadata"]["labels"];
    let marked = live["metadata"]["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID] == origin.uid;
    let ours = labels[label::CONTROL_PLANE] == instance_label(origin.name)
        && labels[label::CONTROL_PLANE_NAMESPACE] == origin.namespace;
    drift::is_controlled_by(live, origin.uid) || (marked && ours)
}

/// Whether it was made for an earlier control plane of this name. There is one object of a name, and it has another uid,
/// so that nobody but this one answers for it: coderd has these rights, whoever asked for them. What has an owner in the
/// cluster goes with that one.
fn is_former_grant(live: &Value, origin: Origin<'_>) -> bool {
    let metadata = &live["metadata"];
    let mark = metadata["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID].as_str();
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    mark.is_some_and(|mark| mark != origin.uid)
        && metadata["labels"][label::CONTROL_PLANE] == instance_label(origin.name)
        && metadata["labels"][label::CONTROL_PLANE_NAMESPACE] == origin.namespace
        && !owners.any(|owner| owner["controller"] == true)
}

fn uid(live: &Value) -> Option<&str> {
    live.pointer("/metadata/uid").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(kind: &'static str, namespace: &str, name: &str) -> Child {
        Child {
            api_version: RBAC,
            kind,
            plural: "",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            manifest: Value::Null,
        }
    }

    #[test]
    fn a_namespace_that_is_asked_for_keeps_its_grant_and_one_for_a_former_account_goes_last() {
        let access = [WorkspaceAccess {
            namespace: "team".to_owned(),
            role: child("Role", "team", "new-perms"),
            binding: child("RoleBinding", "team", "new"),
        }];
        let fate = |in_place: &[&str], rolled, namespace, kind, name| {
            Wanted { access: &access, in_place, rolled }.fate(kind, namespace, name)
        };
        for (in_place, rolled) in [(&[][..], true), (&["team"], true), (&["team"], false)] {
            assert_eq!(fate(in_place, rolled, "team", "Role", "new-perms"), Fate::Keep);
            assert_eq!(fate(in_place, rolled, "team", "RoleBinding", "new"), Fate::Keep);
            assert_eq!(fate(in_place, rolled, "other", "Role", "new-perms"), Fate::Remove);
        }
        assert_eq!(fate(&["team"], true, "team", "Role", "old-perms"), Fate::Remove);
        assert_eq!(fate(&["team"], false, "team", "Role", "old-perms"), Fate::Wait, "old pods use it");
        assert_eq!(fate(&[], true, "team", "Role", "old-perms"), Fate::Wait, "nothing takes its place");
        assert_eq!(Wanted::NOTHING.fate("Role", "team", "new-perms"), Fate::Remove);
    }

    #[test]
    fn of_objects_that_are_to_go_a_few_are_noted_and_of_each_a_few_words() {
        let annotations = Some([("coder.com/0".to_owned(), "x".repeat(1000))].into());
        let metadata = |number: usize| ObjectMeta {
            name: Some(format!("n{number}")),
            uid: Some("u".to_owned()),
            annotations: annotations.clone(),
            ..ObjectMeta::default()
        };
        let mut to_go = ToGo::default();
        (0..ToGo::MOST).for_each(|number| to_go.note(metadata(number)));
        assert!(!to_go.more);
        to_go.note(metadata(ToGo::MOST));
        assert!(to_go.more && to_go.now.len() == ToGo::MOST);
        assert!(format!("{to_go:?}").len() < ToGo::MOST * 100);
    }

    #[test]
    fn a_grant_is_known_by_the_uid_of_its_control_plane() {
        let origin = Origin { namespace: "coder", name: "a", uid: "u1" };
        let grant = |uid: &str, name: &str| {
            json!({"metadata": {
                "labels": {"coder.com/control-plane": name, "coder.com/control-plane-namespace": "coder"},
                "annotations": {"coder.com/workspace-rbac-owner-uid": uid}}})
        };
        assert!(is_grant_of(&grant("u1", "a"), origin));
        assert!(!is_grant_of(&grant("u2", "a"), origin), "an earlier control plane of this name");
        assert!(is_former_grant(&grant("u2", "a"), origin), "for which this one answers");
        assert!(!is_former_grant(&grant("u1", "a"), origin) && !is_former_grant(&grant("u2", "b"), origin));
        let mut other = grant("u2", "a");
        other["metadata"]["ownerReferences"] = json!([{ "uid": "u2", "controller": true }]);
        assert!(!is_former_grant(&other, origin), "its owner takes it along");
        other["metadata"] = json!({ "labels": grant("u2", "a")["metadata"]["labels"] });
        assert!(!is_former_grant(&other, origin), "without a mark it is not of ours");
        assert!(!is_grant_of(&grant("u1", "b"), origin));
        let long = "x".repeat(70);
        let labelled = grant("u1", &instance_label(&long));
        assert!(is_grant_of(&labelled, Origin { name: &long, ..origin }), "labels hold 63 characters");
        assert!(is_grant_of(
            &json!({"metadata": {"ownerReferences": [{"uid": "u1", "controller": true}]}}),
            origin
        ));
    }
}
