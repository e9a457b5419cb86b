//! Decides who may hold how many of the connections of the process: one budget for all ports, a part of it kept for the
//! probes. What is above a caller's share is closed at once; nobody waits behind it.

use super::peer::Peer;
use super::shares::Shares;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of the process. An API server keeps 25 idle ones and opens one for each admission beyond, of which it has
/// at most 200 under way; an open connection costs about 40 kB, in the middle of a handshake up to 100.
const ALL: usize = 512;
/// Kept for the probes: the kubelet must reach them whatever happens elsewhere.
const PROBES: usize = 64;

/// The connections of some ports. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Mutex<Shares>>);

impl Connections {
    /// The budget of the process: for all ports but the probes, and for these.
    pub(crate) fn of_process() -> (Self, Self) {
        let part = |limit| Self(Arc::new(Mutex::new(Shares::of(limit))));
        (part(ALL - PROBES), part(PROBES))
    }

    /// A place for one more connection of a caller, if it may have one.
    pub(crate) fn take(&self, peer: Peer) -> Option<Place> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shares.take(peer, 1).ok()?;
        Some(Place { peer, connections: self.clone() })
    }
}

/// One connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    peer: Peer,
    connections: Connections,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.0.lock().unwrap_or_else(PoisonError::into_inner).give(self.peer, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn whoever_takes_all_it_can_leaves_places_to_others_and_to_the_probes() {
        let (callers, probes) = Connections::of_process();
        let [attacker, honest] =
            ["127.0.0.2", "127.0.0.1"].map(|ip| Peer::from(ip.parse::<IpAddr>().unwrap()));
        let held: Vec<Place> = std::iter::from_fn(|| callers.take(attacker)).collect();
        assert_eq!(held.len(), (ALL - PROBES) / 2);
        assert!(callers.take(honest).is_some() && probes.take(attacker).is_some());
        drop(held);
        assert!(callers.take(attacker).is_some());
    }
}
