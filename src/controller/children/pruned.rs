//! Remembers for which objects everything that is no longer wanted was looked for, so that it is not looked for again in
//! every reconcile. It is a hint that a restart forgets, and it never removes anything itself.

use super::{Fingerprint, Place, Unwanted};
use crate::controller::identity::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is asked of an object: a later one of its name, another spec and another request ask for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskedFor {
    /// Its uid.
    pub(crate) uid: String,
    /// Its generation.
    pub(crate) generation: i64,
    /// The last request to have it reconciled.
    pub(crate) request: Option<Fingerprint>,
}

/// For what everything no longer wanted was looked for.
#[derive(Debug)]
struct Pruned {
    of: AskedFor,
    /// What the watches showed of it then: it is gone, or not ours.
    unwanted: BTreeSet<Place>,
}

/// The objects of a kind for which that was done.
#[derive(Debug, Default)]
pub(crate) struct PruneMemory(Mutex<BTreeMap<ObjectKey, Pruned>>);

impl PruneMemory {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Pruned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left of what an earlier generation asked for: it was looked for since this one came, and the
    /// watches have shown nothing since. The first generation left nothing, unless `must_look`.
    pub(crate) fn is_done(
        &self,
        key: &ObjectKey,
        asked_for: AskedFor,
        unwanted: &Unwanted,
        must_look: bool,
    ) -> bool {
        let mut all = self.all();
        if let Some(done) = all.get_mut(key).filter(|done| done.of == asked_for) {
            // What went and comes back is new.
            let nothing_new = unwanted.places.is_subset(&done.unwanted);
            done.unwanted.retain(|place| unwanted.places.contains(place));
            return nothing_new;
        }
        let is_first = asked_for.generation == 1 && asked_for.request.is_none();
        let nothing = is_first && !must_look && unwanted.is_nothing();
        if nothing {
            all.insert(key.clone(), Pruned { of: asked_for, unwanted: BTreeSet::new() });
        }
        nothing
    }

    /// Whether it was looked for in this term, for whatever was asked then.
    pub(crate) fn knows(&self, key: &ObjectKey) -> bool {
        self.all().contains_key(key)
    }

    /// Notes that everything was looked for, while the watches showed this.
    pub(crate) fn note(&self, key: &ObjectKey, asked_for: AskedFor, unwanted: Unwanted) {
        self.all().insert(key.clone(), Pruned { of: asked_for, unwanted: unwanted.places });
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    /// Forgets everything: another leader may have changed it.
    pub(crate) fn clear(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "builders".to_owned() }
    }

    fn asked(generation: i64) -> AskedFor {
        AskedFor { uid: "u".to_owned(), generation, request: None }
    }

    #[test]
    fn the_first_generation_left_nothing_and_every_later_one_is_looked_for_once() {
        let (memory, nothing) =
            (PruneMemory::default(), || Unwanted { complete: true, ..Unwanted::default() });
        assert!(
            !memory.is_done(&key(), asked(1), &Unwanted::default(), false),
            "nobody has shown everything"
        );
        assert!(!memory.is_done(&key(), asked(1), &nothing(), true) && !memory.knows(&key()));
        assert!(memory.is_done(&key(), asked(1), &nothing(), false) && memory.knows(&key()));
        assert!(!memory.is_done(&key(), asked(2), &nothing(), false));
        memory.note(&key(), asked(2), nothing());
        assert!(memory.is_done(&key(), asked(2), &nothing(), true));
        memory.forget(&key());
        assert!(!memory.is_done(&key(), asked(2), &nothing(), false));
    }
}
