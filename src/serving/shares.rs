//! Decides how much of something that can run out each caller may hold: never more than is left for the others.
//! So one caller holds at most half, two at most a third each, and a newcomer always finds something; within an IPv6 network
//! the same holds for its addresses. Never waits.

use super::peer::{Peer, Scope};
use std::collections::HashMap;

/// Who holds how much of a fixed amount.
#[derive(Debug)]
pub(crate) struct Shares {
    limit: usize,
    held: usize,
    by_scope: HashMap<Scope, usize>,
}

/// Why nothing is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This caller would hold more than is left for others.
    Share,
    /// Nobody would get this much now.
    Exhausted,
}

impl Shares {
    /// An amount that nobody holds anything of.
    pub(crate) fn of(limit: usize) -> Self {
        Self { limit, held: 0, by_scope: HashMap::new() }
    }

    /// Takes an amount for a caller, all of it or nothing.
    pub(crate) fn take(&mut self, peer: Peer, amount: usize) -> Result<(), Refused> {
        let left = self.limit.saturating_sub(self.held);
        let holds = |scope: Scope| self.by_scope.get(&scope).copied().unwrap_or_default();
        let own = holds(peer.caller());
        if amount > left {
            return Err(Refused::Exhausted);
        }
        if own + amount > left - amount {
            return Err(Refused::Share);
        }
        // What the caller could come to hold is shared among its addresses by the same rule.
        let left_of_caller = (own + left) / 2 - own;
        if peer.address().is_some_and(|address| holds(address) + 2 * amount > left_of_caller) {
            return Err(Refused::Share);
        }
        self.held += amount;
        for scope in peer.scopes() {
            *self.by_scope.entry(scope).or_default() += amount;
        }
        Ok(())
    }

    /// Gives an amount back.
    pub(crate) fn give(&mut self, peer: Peer, amount: usize) {
        self.held = self.held.saturating_sub(amount);
        for scope in peer.scopes() {
            let left = self.by_scope.get(&scope).map(|own| own.saturating_sub(amount));
            // Only those who hold something are remembered: the table is as bounded as the amount.
            match left {
                Some(left) if left > 0 => self.by_scope.insert(scope, left),
                _ => self.by_scope.remove(&scope),
            };
        }
    }

    /// What all of them hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(number: u8) -> Peer {
        Peer::from(std::net::IpAddr::from(Ipv4Addr::new(127, 0, 0, number)))
    }

    fn all(shares: &mut Shares, peer: Peer) -> usize {
        (0..).take_while(|_| shares.take(peer, 1).is_ok()).count()
    }

    #[test]
    fn no_caller_holds_more_than_half() {
        let mut shares = Shares::of(512);
        assert_eq!(all(&mut shares, peer(1)), 256);
        assert_eq!(shares.take(peer(1), 1), Err(Refused::Share));
    }

    #[test]
    fn a_newcomer_finds_something_however_many_came_before() {
        let mut shares = Shares::of(512);
        for number in 1..=6 {
            assert!(all(&mut shares, peer(number)) >= 1, "{number}");
        }
        assert!(shares.held() < 512);
    }

    #[test]
    fn an_address_of_an_ipv6_network_leaves_half_of_its_share_to_the_others() {
        let at = |ip: &str| Peer::from(ip.parse::<std::net::IpAddr>().unwrap());
        let mut shares = Shares::of(512);
        assert_eq!(all(&mut shares, at("2001:db8::1")), 128);
        assert_eq!(all(&mut shares, at("2001:db8::2")), 64);
        assert!(shares.take(at("2001:db8::3"), 1).is_ok() && shares.take(peer(1), 1).is_ok());
        shares.give(at("2001:db8::1"), 128);
        shares.give(at("2001:db8::2"), 64);
        shares.give(at("2001:db8::3"), 1);
        shares.give(peer(1), 1);
        assert_eq!((shares.held(), shares.by_scope.len()), (0, 0));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_nobody_is_remembered_for_nothing() {
        let mut shares = Shares::of(10);
        assert_eq!(shares.take(peer(1), 5), Ok(()));
        assert_eq!(shares.take(peer(2), 11), Err(Refused::Exhausted));
        shares.give(peer(1), 5);
        assert_eq!((shares.held(), shares.by_scope.len()), (0, 0));
        assert_eq!(shares.take(peer(2), 5), Ok(()));
    }
}
