//! Remembers which control planes asked to be left alone for a while, by the uid of their object: another object of the same
//! name has another coderd. A restart forgets it.

use crate::coderd::RateLimitHold;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The holds of all control planes. Clones share them: whoever asks a coderd heeds what it told anybody of us.
#[derive(Clone, Default)]
pub(crate) struct Holds(Arc<Mutex<BTreeMap<String, RateLimitHold>>>);

impl Holds {
    /// How long the coderd of this object asked to be left alone. Those that are over are forgotten.
    pub(crate) fn of(&self, uid: &str) -> RateLimitHold {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        holds.retain(|_, hold| !hold.is_idle(now));
        holds.entry(uid.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_hold_is_kept_for_its_object_until_it_is_over() {
        let holds = Holds::default();
        holds.of("a").begin(Instant::now() + Duration::from_secs(60));
        assert!(holds.of("a").left(Instant::now()).is_some());
        assert!(holds.clone().of("a").left(Instant::now()).is_some(), "whoever asks");
        assert!(holds.of("b").left(Instant::now()).is_none(), "another one's");
        drop(holds.of("c"));
        holds.of("a");
        assert!(!holds.0.lock().unwrap().contains_key("c"), "one that never began is forgotten");
    }
}
