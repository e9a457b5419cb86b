//! Remembers, from what passes by, where control planes have rights outside their namespace, and which namespaces refuse
//! them. It is a hint that saves requests: whoever acts on it asks the API server first.

use super::Trigger;
use crate::controller::children::ChildKind;
use crate::controller::control_plane::consent;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::Change;
use crds::well_known::label;
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Grants that are remembered; each takes some three hundred bytes. What is beyond is found when its namespace or its owner
/// is looked at.
const MOST: usize = 30_000;

/// What is known of rights in other namespaces. Names only.
#[derive(Debug, Default)]
pub(crate) struct GrantIndex(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The owner of each Role and RoleBinding as its labels name it now, by uid, and where it is.
    grants: BTreeMap<String, (ObjectKey, String)>,
    /// The namespaces of them, by owner, with how many there are in each.
    places: BTreeMap<ObjectKey, BTreeMap<String, usize>>,
    /// The namespaces that take workspaces of nobody.
    refusing: BTreeSet<String>,
}

impl GrantIndex {
    /// Takes note of a change; whose rights are refused where it happened.
    pub(super) fn note(&self, trigger: Trigger, change: &Change) -> Vec<ObjectKey> {
        let (metadata, mut known) = (&change.metadata, self.known());
        match trigger {
            Trigger::Namespace => known.note_namespace(metadata, change.gone),
            Trigger::Child(ChildKind::Role | ChildKind::RoleBinding) => {
                known.note_grant(metadata, change.gone).into_iter().collect()
            }
            Trigger::Child(_) | Trigger::Consumed(_) | Trigger::Record => Vec::new(),
        }
    }

    /// Where a control plane has rights that are refused, as far as is known.
    pub(crate) fn refused(&self, key: &ObjectKey) -> BTreeSet<String> {
        let (owner, known) = (key.labelled(), self.known());
        let places = known.places.get(&owner).into_iter().flat_map(BTreeMap::keys);
        places.filter(|place| known.refusing.contains(*place)).cloned().collect()
    }

    /// Forgets everything: a term begins, and its watches tell all there is.
    pub(crate) fn begin_term(&self) {
        *self.known() = Known::default();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn note_namespace(&mut self, metadata: &ObjectMeta, gone: bool) -> Vec<ObjectKey> {
        let Some(name) = &metadata.name else { return Vec::new() };
        let labels = metadata.labels.as_ref();
        let says = labels.and_then(|labels| labels.get(label::WORKSPACES_FROM)).map(String::as_str);
        if gone || !consent::refuses(says) {
            self.refusing.remove(name);
            return Vec::new();
        }
        self.refusing.insert(name.clone());
        let owners = self.places.iter().filter(|(_, places)| places.contains_key(name));
        owners.map(|(owner, _)| owner.clone()).collect()
    }

    fn note_grant(&mut self, metadata: &ObjectMeta, gone: bool) -> Option<ObjectKey> {
        let (place, uid) = (metadata.namespace.clone()?, metadata.uid.clone()?);
        // Its labels may have named another before.
        self.forget_grant(&uid);
        let owner = ObjectKey::of_labels(metadata).filter(|owner| owner.namespace != place)?;
        if gone || self.grants.len() >= MOST {
            return None;
        }
        let refused = self.refusing.contains(&place);
        *self.places.entry(owner.clone()).or_default().entry(place.clone()).or_default() += 1;
        self.grants.insert(uid, (owner.clone(), place));
        refused.then_some(owner)
    }

    fn forget_grant(&mut self, uid: &str) {
        let Some((owner, place)) = self.grants.remove(uid) else { return };
        let Some(places) = self.places.get_mut(&owner) else { return };
        if let Some(count) = places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                places.remove(&place);
            }
        }
        if places.is_empty() {
            self.places.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::names::instance_label;
    use serde_json::{from_value, json};

    fn namespace(says: &str, gone: bool) -> Change {
        let metadata = json!({"name": "theirs", "labels": {"coder.com/workspaces-from": says}});
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    fn grant(place: &str, name: &str, uid: &str, gone: bool) -> Change {
        let metadata = json!({"name": "role", "namespace": place, "uid": uid, "labels": {
            "coder.com/control-plane": instance_label(name), "coder.com/control-plane-namespace": "team"}});
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    #[test]
    fn a_refusal_finds_whoever_has_rights_there_in_whatever_order_they_are_seen() {
        let (grant_index, name) = (GrantIndex::default(), "x".repeat(70));
        let key = ObjectKey { namespace: "team".to_owned(), name: name.clone() };
        let child = |change: &Change| grant_index.note(Trigger::Child(ChildKind::Role), change);
        let says = |says: &str, gone| grant_index.note(Trigger::Namespace, &namespace(says, gone));
        let places = || grant_index.refused(&key).into_iter().collect::<Vec<_>>();
        assert!(child(&grant("theirs", &name, "1", false)).is_empty() && says("team", false).is_empty());
        assert!(child(&grant("theirs", "other", "2", true)).is_empty(), "never seen and gone");
        assert_eq!(places(), Vec::<String>::new(), "nobody refuses");
        let woken = says("none", false);
        assert!(woken.len() == 1 && woken[0] == key.labelled(), "{woken:?}");
        assert_eq!(places(), ["theirs"]);
        assert_eq!(child(&grant("theirs", &name, "3", false)).len(), 1, "refused already when it came");
        child(&grant("theirs", &name, "1", true));
        assert_eq!(places(), ["theirs"], "one is left");
        child(&grant("theirs", &name, "3", true));
        assert_eq!((places(), says("none", false)), (Vec::new(), Vec::new()), "nothing is left to take back");
        assert!(child(&grant("team", &name, "4", false)).is_empty() && grant_index.known().grants.is_empty());
        says("none", true);
        child(&grant("theirs", &name, "5", false));
        assert_eq!(places(), Vec::<String>::new(), "the namespace that refused is gone");
        for name in ["a", "b", "c"] {
            child(&grant("theirs", name, "5", false));
        }
        let kept = || {
            let known = grant_index.known();
            (known.grants.len(), known.places.len())
        };
        assert_eq!(kept(), (1, 1), "relabelled");
        child(&grant("theirs", "else", "5", true));
        assert_eq!(kept(), (0, 0), "it is gone");
    }
}
