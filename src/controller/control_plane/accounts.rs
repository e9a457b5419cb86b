//! Lets go of accounts that the spec no longer has us make: one that somebody else is to make is given away, one that is
//! no longer named is removed. It never touches an account that this control plane does not own, or that pods still use.

use super::apply::Look;
use super::build::Children;
use super::reconciler::Reconciler;
use super::subject::Subject;
use crate::controller::children::prune::{PruneCandidate, PruneCandidates};
use crate::controller::children::{ChildKind, drift};
use crate::kubernetes::{CallError, Target};
use crds::names::{control_plane, instance_label};
use crds::well_known::{MANAGER, label};
use json_patch::Patch;
use kube::core::ObjectMeta;
use serde_json::{Value, from_value, json};

impl Reconciler {
    /// Lets go of what is no longer ours to make; returns whether nothing is left to let go of. `rolled` tells whether
    /// every pod runs as the account that is asked for now. While admission is disabled nothing is let go of.
    pub(super) async fn release_accounts(
        &self,
        subject: &Subject,
        children: &Children,
        rolled: bool,
        look: Look,
    ) -> Result<bool, CallError> {
        let (key, uid) = (&subject.object.key, &subject.object.uid);
        let named = control_plane::service_account(&key.name, &subject.complete.spec);
        let namespace = &key.namespace;
        if children.service_account.is_none()
            && let Some(live) = self.kube.read(account(namespace, named)).await?
            && drift::is_controlled_by(&live, uid)
        {
            if look.admission_disabled {
                return Ok(false);
            }
            self.kube.patch(account(namespace, named), disowned(&live, uid)).await?;
        }
        if !look.everywhere {
            return Ok(true);
        }
        let instance = instance_label(&key.name);
        let selector = format!("{}={MANAGER},{}={instance}", label::MANAGED_BY, label::INSTANCE);
        let mut candidates = PruneCandidates::default();
        let note = |metadata: ObjectMeta| {
            let is_named = metadata.name.as_deref() == Some(named);
            if !is_named && drift::is_controlled_by(&json!({ "metadata": metadata }), uid) {
                candidates.note(metadata);
            }
        };
        self.kube.labelled_metadata(account(namespace, ""), &selector, note).await?;
        if !rolled || look.admission_disabled {
            return Ok(candidates.now.is_empty());
        }
        for PruneCandidate { name, uid, .. } in &candidates.now {
            self.kube.remove(account(namespace, name), uid).await?;
        }
        Ok(!candidates.more)
    }
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
