//! Remembers which control planes asked to be left alone for a while, by the uid of their object: another object of the same
//! name has another coderd. A coderd that is known by its address limits each of those who ask it, and holds nobody else. A
//! restart forgets it.

use crate::coderd::RateLimitHold;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Who is held.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// Whoever asks the control plane of this uid.
    ControlPlane(String),
    /// Whoever asks this address with these credentials: namespace, Secret and key.
    Address(String, [String; 3]),
}

/// The holds of all control planes. Clones share them: whoever asks a coderd heeds what it told anybody of us.
#[derive(Clone, Default)]
pub(crate) struct Holds(Arc<Mutex<BTreeMap<Held, RateLimitHold>>>);

impl Holds {
    /// How long the coderd of this object asked to be left alone. Those that are over are forgotten.
    pub(crate) fn of(&self, uid: &str) -> RateLimitHold {
        self.held(Held::ControlPlane(uid.to_owned()))
    }

    /// The same of a coderd at an address, for those credentials alone: what it tells one tenant stops no other.
    pub(crate) fn of_credentials(
        &self,
        url: &str,
        namespace: &str,
        secret: &str,
        key: &str,
    ) -> RateLimitHold {
        self.held(Held::Address(url.to_owned(), [namespace, secret, key].map(str::to_owned)))
    }

    fn held(&self, held: Held) -> RateLimitHold {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        holds.retain(|_, hold| !hold.is_idle(now));
        holds.entry(held).or_default().clone()
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
        assert!(
            !holds.0.lock().unwrap().contains_key(&Held::ControlPlane("c".to_owned())),
            "one that never began is forgotten"
        );
    }

    #[test]
    fn what_a_coderd_tells_one_tenant_stops_no_other() {
        let holds = Holds::default();
        let left = |namespace: &str, secret: &str| {
            let hold = holds.of_credentials("https://coder.example.com", namespace, secret, "token");
            hold.left(Instant::now())
        };
        let until = Instant::now() + Duration::from_secs(60);
        holds.of_credentials("https://coder.example.com", "team-a", "admin", "token").begin(until);
        assert!(left("team-a", "admin").is_some(), "for every object that has these credentials");
        assert!(left("team-b", "admin").is_none() && left("team-a", "other").is_none());
        assert!(holds.of("https://coder.example.com").left(Instant::now()).is_none());
    }
}
