//! Decides whose turn it is to be worked for: so many places at once, each caller in a line of its own, at most half of
//! the places for one, and each address of an IPv6 network in a line before that of its network. Waits as long as whoever asks waits, and keeps nothing of a caller that is gone.

use super::peer::{Peer, Scope};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    half: u32,
    lines: Arc<Mutex<HashMap<Scope, Waiting>>>,
}

/// The line of a caller.
#[derive(Debug)]
struct Waiting {
    places: Arc<Semaphore>,
    requests: usize,
}

/// Places that are given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _places: Vec<OwnedSemaphorePermit>,
    _lines: Vec<Line>,
}

/// One request in a line; the line goes with its last one.
#[derive(Debug)]
struct Line {
    scope: Scope,
    turns: Turns,
}

impl Turns {
    /// This many places, of which one caller gets half.
    pub(crate) fn of(places: u32) -> Self {
        let all = usize::try_from(places).unwrap_or(usize::MAX);
        Self { all: Arc::new(Semaphore::new(all)), half: (places / 2).max(1), lines: Arc::default() }
    }

    /// Waits for a number of places, at most half of all. None only if there are no places any more.
    pub(crate) async fn take(&self, peer: Peer, places: u32) -> Option<Turn> {
        let places = places.clamp(1, self.half);
        // First in the own lines: in the common one stand only those whose caller is below its half.
        let (lines, own): (Vec<_>, Vec<_>) = peer.scopes().map(|scope| self.line(scope)).unzip();
        let mut held = Vec::new();
        for line in own.into_iter().chain([self.all.clone()]) {
            held.push(line.acquire_many_owned(places).await.ok()?);
        }
        Some(Turn { _places: held, _lines: lines })
    }

    fn line(&self, scope: Scope) -> (Line, Arc<Semaphore>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let half = usize::try_from(self.half).unwrap_or(usize::MAX);
        let waiting = lines
            .entry(scope)
            .or_insert_with(|| Waiting { places: Arc::new(Semaphore::new(half)), requests: 0 });
        waiting.requests += 1;
        (Line { scope, turns: self.clone() }, waiting.places.clone())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = lines.get_mut(&self.scope) {
            waiting.requests -= 1;
            if waiting.requests == 0 {
                lines.remove(&self.scope);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::net::IpAddr;

    fn peer(address: &str) -> Peer {
        Peer::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn a_caller_with_a_long_line_delays_only_itself() {
        let turns = Turns::of(8);
        let (attacker, honest) = (peer("127.0.0.2"), peer("127.0.0.1"));
        let take = |peer, places| turns.take(peer, places).now_or_never().flatten();
        let held: Vec<Turn> = (0..8).filter_map(|_| take(attacker, 1)).collect();
        assert_eq!(held.len(), 4);
        // Those that wait stand in a line of their own.
        let mut waiting = Box::pin(turns.take(attacker, 4));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(take(honest, 4).is_some());
        drop(held);
        assert!(waiting.now_or_never().flatten().is_some());
    }

    #[test]
    fn an_address_of_an_ipv6_network_stands_before_others_with_no_more_than_it_may_hold() {
        let turns = Turns::of(8);
        let (attacker, honest) = (peer("2001:db8::1"), peer("2001:db8::2"));
        let mut held: Vec<Turn> =
            (0..4).filter_map(|_| turns.take(attacker, 1).now_or_never().flatten()).collect();
        let mut line: Vec<_> = (0..100).map(|_| Box::pin(turns.take(attacker, 1))).collect();
        assert!(line.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let mut waiting = Box::pin(turns.take(honest, 1));
        assert!((&mut waiting).now_or_never().is_none(), "the network has its half");
        held.pop();
        assert!(waiting.now_or_never().flatten().is_some(), "the next one is not the attacker's");
    }

    #[test]
    fn nobody_asks_for_more_than_a_caller_can_get_and_no_line_is_kept() {
        let turns = Turns::of(8);
        let turn = turns.take(peer("127.0.0.1"), 100).now_or_never().flatten();
        assert!(turn.is_some());
        drop(turn);
        let mut given_up = Box::pin(turns.take(peer("127.0.0.2"), 4));
        let blocking = turns.take(peer("127.0.0.2"), 4).now_or_never();
        assert!((&mut given_up).now_or_never().is_none() && blocking.is_some());
        drop((given_up, blocking));
        assert!(turns.lines.lock().unwrap().is_empty());
    }
}
