//! Brings the account of pods into place, and lets go of accounts that the spec no longer has us make: one that somebody else
//! is to make is given away, one that is no longer named is removed. It never touches an account that the owner does not
//! control, or that pods still use.

use super::account_use::{self, AccountUse};
use super::apply::{Applier, Problems};
use super::prune::{PruneCandidate, PruneCandidates};
use super::withheld::Withheld;
use super::{Child, ChildKind, OwnerState, drift};
use crate::controller::identity::Owner;
use crate::kubernetes::{CallError, Kube, Target};
use crds::names::instance_label;
use crds::well_known::{MANAGER, label};
use json_patch::Patch;
use kube::core::ObjectMeta;
use serde_json::{Value, from_value, json};

/// Brings the account of this name into place, if it is ours to make, and returns whether pods may run as it. Before anything
/// is run or granted under it, it is read: a watch may be late to tell that somebody has put another in its place.
pub(crate) async fn apply(
    applier: Applier<'_>,
    owner: OwnerState<'_>,
    name: &str,
    child: Option<&Child>,
    withheld: &Withheld,
    problems: &mut Problems,
) -> AccountUse {
    let asked_for = account_use::is_asked_for(owner.object, name, owner.uid, owner.deployment);
    let Some(child) = child.filter(|child| !withheld.has(child)) else {
        // One that is left as it is gives nothing that is not there: the pods and their rights are left as well.
        return AccountUse::Allowed;
    };
    let state = applier.create_or_apply(child, owner.is_ours(child)).await;
    let account_use =
        if asked_for { AccountUse::Allowed } else { account_use::of_made(name, owner.uid, &state) };
    if !matches!(account_use, AccountUse::Refused(_)) {
        problems.note(&state);
    }
    account_use
}

/// The account that an object asks for, and what is known of its use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccountWanted<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Whether we make it.
    pub(crate) made: bool,
    /// Whether every pod runs as it.
    pub(crate) rolled: bool,
    /// Whether accounts of other names are looked for.
    pub(crate) everywhere: bool,
    /// Whether admission is disabled: nothing is let go of then.
    pub(crate) admission_disabled: bool,
}

/// Lets go of what is no longer ours to make; returns whether nothing is left to let go of.
pub(crate) async fn release(
    kube: &Kube,
    owner: Owner<'_>,
    wanted: AccountWanted<'_>,
) -> Result<bool, CallError> {
    let (namespace, uid) = (owner.namespace, owner.uid);
    if !wanted.made
        && let Some(live) = kube.read(account(namespace, wanted.name)).await?
        && drift::is_controlled_by(&live, uid)
    {
        if wanted.admission_disabled {
            return Ok(false);
        }
        kube.patch(account(namespace, wanted.name), disowned(&live, uid)).await?;
    }
    if !wanted.everywhere {
        return Ok(true);
    }
    let instance = instance_label(owner.name);
    let selector = format!("{}={MANAGER},{}={instance}", label::MANAGED_BY, label::INSTANCE);
    let mut candidates = PruneCandidates::default();
    let note = |metadata: ObjectMeta| {
        let is_named = metadata.name.as_deref() == Some(wanted.name);
        if !is_named && drift::is_controlled_by(&json!({ "metadata": metadata }), uid) {
            candidates.note(metadata);
        }
    };
    kube.labelled_metadata(account(namespace, ""), &selector, note).await?;
    if !wanted.rolled || wanted.admission_disabled {
        return Ok(candidates.now.is_empty());
    }
    for PruneCandidate { name, uid, .. } in &candidates.now {
        kube.remove(account(namespace, name), uid).await?;
    }
    Ok(!candidates.more)
}

fn account<'a>(namespace: &'a str, name: &'a str) -> Target<'a> {
    Target::of(ChildKind::ServiceAccount.names(), namespace, name)
}

/// The patch that takes our reference off an object; it fails if the object changed since it was read.
fn disowned(live: &Value, uid: &str) -> Patch {
    let owners = live["metadata"]["ownerReferences"].as_array();
    let others: Vec<&Value> = owners.into_iter().flatten().filter(|owner| owner["uid"] != uid).collect();
    let path = "/metadata/ownerReferences";
    let change = if others.is_empty() {
        json!({"op": "remove", "path": path})
    } else {
        json!({"op": "replace", "path": path, "value": others})
    };
    let version = &live["metadata"]["resourceVersion"];
    from_value(json!([{"op": "test", "path": "/metadata/resourceVersion", "value": version}, change]))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_reference_goes_and_those_of_others_stay() {
        let ours = json!({"uid": "u1", "controller": true});
        let mut alone = json!({"metadata": {"resourceVersion": "7", "ownerReferences": [ours]}});
        let patch = disowned(&alone, "u1");
        json_patch::patch(&mut alone, &patch).unwrap();
        assert_eq!(alone, json!({"metadata": {"resourceVersion": "7"}}));
        let mut shared =
            json!({"metadata": {"resourceVersion": "7", "ownerReferences": [{"uid": "u2"}, ours]}});
        let patch = disowned(&shared, "u1");
        json_patch::patch(&mut shared, &patch).unwrap();
        assert_eq!(shared["metadata"]["ownerReferences"], json!([{"uid": "u2"}]));
        shared["metadata"]["resourceVersion"] = json!("8");
        assert!(json_patch::patch(&mut shared, &patch).is_err(), "somebody else was faster");
    }
}
