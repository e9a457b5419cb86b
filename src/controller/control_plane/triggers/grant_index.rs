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

/// Control planes that are remembered for one namespace, and for all together; each takes some two hundred bytes. Anybody
/// who may write Roles can name as many as he likes: beyond that every control plane is looked for there.
const MOST_OF_PLACE: usize = 500;
const MOST: usize = 30_000;

/// Control planes, as labels name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owners {
    These(BTreeSet<ObjectKey>),
    /// Too many to remember.
    Anybody,
}

impl Default for Owners {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Owners {
    pub(super) fn contains(&self, owner: &ObjectKey) -> bool {
        match self {
            Self::These(owners) => owners.contains(owner),
            Self::Anybody => true,
        }
    }
}

/// What is known of rights in other namespaces. Names only.
#[derive(Debug, Default)]
pub(crate) struct GrantIndex(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Who has, or had, a Role or RoleBinding in a namespace.
    places: BTreeMap<String, Owners>,
    /// How many are remembered.
    count: usize,
    /// The namespaces that take workspaces of nobody.
    refusing: BTreeSet<String>,
}

impl GrantIndex {
    /// Takes note of a change; whose rights are refused where it happened.
    pub(super) fn note(&self, trigger: Trigger, change: &Change) -> Owners {
        let mut known = self.known();
        match trigger {
            Trigger::Namespace => known.note_namespace(&change.metadata, change.gone),
            Trigger::Child(ChildKind::Role | ChildKind::RoleBinding) if !change.gone => {
                known.note_grant(&change.metadata).unwrap_or_default()
            }
            Trigger::Child(_) | Trigger::Consumed(_) | Trigger::Record => Owners::default(),
        }
    }

    /// Where a control plane may have rights that are refused, as far as is known.
    pub(crate) fn refused(&self, key: &ObjectKey) -> BTreeSet<String> {
        let (owner, known) = (key.labelled(), self.known());
        let has = |place: &&String| known.places.get(*place).is_some_and(|owners| owners.contains(&owner));
        known.refusing.iter().filter(has).cloned().collect()
    }

    /// Whether a control plane may have rights in another namespace, as far as is known.
    pub(crate) fn has(&self, key: &ObjectKey, place: &str) -> bool {
        self.known().places.get(place).is_some_and(|owners| owners.contains(&key.labelled()))
    }

    /// Takes note that a control plane has nothing in a namespace any more.
    pub(crate) fn forget(&self, key: &ObjectKey, place: &str) {
        let mut known = self.known();
        if let Some(Owners::These(owners)) = known.places.get_mut(place)
            && owners.remove(&key.labelled())
        {
            known.count -= 1;
        }
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
    fn note_namespace(&mut self, metadata: &ObjectMeta, gone: bool) -> Owners {
        let Some(name) = &metadata.name else { return Owners::default() };
        let labels = metadata.labels.as_ref();
        let says = labels.and_then(|labels| labels.get(label::WORKSPACES_FROM)).map(String::as_str);
        if gone || !consent::refuses(says) {
            self.refusing.remove(name);
            return Owners::default();
        }
        self.refusing.insert(name.clone());
        self.places.get(name).cloned().unwrap_or_default()
    }

    fn note_grant(&mut self, metadata: &ObjectMeta) -> Option<Owners> {
        let place = metadata.namespace.clone()?;
        let owner = ObjectKey::of_labels(metadata).filter(|owner| owner.namespace != place)?;
        let refused = self.refusing.contains(&place);
        let owners = self.places.entry(place).or_default();
        if let Owners::These(these) = owners
            && these.insert(owner.clone())
        {
            self.count += 1;
            if these.len() > MOST_OF_PLACE || self.count > MOST {
                self.count -= these.len();
                *owners = Owners::Anybody;
            }
        }
        refused.then(|| Owners::These([owner].into()))
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

    fn grant(place: &str, name: &str) -> Change {
        let metadata = json!({"name": "role", "namespace": place, "uid": "1", "labels": {
            "coder.com/control-plane": instance_label(name), "coder.com/control-plane-namespace": "team"}});
        Change { metadata: from_value(metadata).unwrap(), gone: false }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_refusal_finds_whoever_has_rights_there_in_whatever_order_they_are_seen() {
        let (grant_index, name) = (GrantIndex::default(), "x".repeat(70));
        let (key, nobody) = (key(&name), Owners::default());
        let child = |change: &Change| grant_index.note(Trigger::Child(ChildKind::Role), change);
        let says = |says: &str, gone| grant_index.note(Trigger::Namespace, &namespace(says, gone));
        let places = || grant_index.refused(&key).into_iter().collect::<Vec<_>>();
        assert_eq!((child(&grant("theirs", &name)), says("team", false)), (nobody.clone(), nobody.clone()));
        assert_eq!(places(), Vec::<String>::new(), "nobody refuses");
        let woken = says("none", false);
        assert!(woken.contains(&key.labelled()) && !woken.contains(&self::key("other")), "{woken:?}");
        assert_eq!(places(), ["theirs"]);
        assert!(child(&grant("theirs", "late")).contains(&self::key("late")), "it was granted since");
        assert_eq!(child(&grant("elsewhere", "late")), nobody, "nobody refuses there");
        assert_eq!(child(&grant("team", &name)), nobody, "its own namespace");
        grant_index.forget(&key, "theirs");
        assert_eq!(places(), Vec::<String>::new(), "nothing is left there");
        says("none", true);
        assert_eq!(
            grant_index.refused(&self::key("late")),
            BTreeSet::new(),
            "the namespace that refused is gone"
        );
        grant_index.begin_term();
        assert!(grant_index.known().places.is_empty());
    }

    #[test]
    fn whoever_names_many_hides_nobody() {
        let grant_index = GrantIndex::default();
        let child = |place: &str, name: &str| {
            grant_index.note(Trigger::Child(ChildKind::RoleBinding), &grant(place, name));
        };
        for number in 0..=MOST_OF_PLACE {
            child("theirs", &number.to_string());
        }
        child("other", "coder");
        assert_eq!(grant_index.known().count, 1, "nothing is kept of them");
        let woken = grant_index.note(Trigger::Namespace, &namespace("none", false));
        assert_eq!(woken, Owners::Anybody);
        assert_eq!(grant_index.refused(&key("coder")), ["theirs".to_owned()].into(), "it is looked for");
    }
}
