//! Decides how often each caller may cause work: a burst, then so much a second, and never more than an eighth of what
//! all of them may cause together; one address of an IPv6 network half of what its network may. Takes the time as a value and never waits.

use super::peer::{Peer, Scope};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How many callers may use what they have in full at the same time: fewer, and two of them could lock out a third.
const TOGETHER: u32 = 8;
/// Callers that are remembered. One that is forgotten starts afresh, so those are forgotten first who used least.
const CALLERS: usize = 1024;

/// How much of something a caller may cause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// At once.
    pub burst: u32,
    /// In the long run, a second.
    pub per_second: u32,
}

impl Rate {
    /// What counts for a caller, or for one address of it.
    fn of(self, scope: Scope) -> Self {
        match scope {
            Scope::Caller(_) => self,
            Scope::Address(_) => Self { burst: self.burst / 2, per_second: self.per_second.div_ceil(2) },
        }
    }

    /// The same for everybody together.
    fn of_all(self) -> Self {
        Self { burst: self.burst * TOGETHER, per_second: self.per_second * TOGETHER }
    }
}

/// How full a bucket is that drains by itself.
#[derive(Debug, Clone, Copy)]
struct Level {
    used: f64,
    at: Instant,
}

impl Level {
    fn now(self, rate: Rate, now: Instant) -> f64 {
        let drained = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(rate.per_second);
        (self.used - drained).max(0.0)
    }
}

/// What each caller has used lately.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    all: Level,
    by_scope: HashMap<Scope, Level>,
}

impl Rates {
    /// Nobody has used anything yet.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, all: Level { used: 0.0, at: now }, by_scope: HashMap::new() }
    }

    /// Takes an amount, or says how long to wait until there is room for it.
    pub(crate) fn take(&mut self, peer: Peer, amount: u32, now: Instant) -> Result<(), Duration> {
        let (rate, together, amount) = (self.rate, self.rate.of_all(), f64::from(amount));
        let used = |scope| self.by_scope.get(&scope).map_or(0.0, |level| level.now(rate.of(scope), now));
        let own: Vec<(Scope, f64)> = peer.scopes().map(|scope| (scope, used(scope))).collect();
        let all = self.all.now(together, now);
        let over = |used: f64, rate: Rate| {
            (used + amount - f64::from(rate.burst)).max(0.0) / f64::from(rate.per_second)
        };
        let wait =
            own.iter().map(|(scope, used)| over(*used, rate.of(*scope))).fold(over(all, together), f64::max);
        if wait > 0.0 {
            return Err(Duration::from_secs_f64(wait));
        }
        self.all = Level { used: all + amount, at: now };
        for (scope, used) in own {
            if self.by_scope.len() >= CALLERS && !self.by_scope.contains_key(&scope) {
                self.forget(now);
            }
            self.by_scope.insert(scope, Level { used: used + amount, at: now });
        }
        Ok(())
    }

    fn forget(&mut self, now: Instant) {
        let rate = self.rate;
        let used = |scope: &Scope, level: &Level| level.now(rate.of(*scope), now);
        self.by_scope.retain(|scope, level| used(scope, level) > 0.0);
        if self.by_scope.len() < CALLERS {
            return;
        }
        let least = self.by_scope.iter().min_by(|a, b| used(a.0, a.1).total_cmp(&used(b.0, b.1)));
        if let Some(scope) = least.map(|(scope, _)| *scope) {
            self.by_scope.remove(&scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const RATE: Rate = Rate { burst: 10, per_second: 2 };

    fn peer(number: u32) -> Peer {
        Peer::from(IpAddr::from(Ipv4Addr::from(0x7f00_0000 + number)))
    }

    #[test]
    fn after_a_burst_so_much_a_second() {
        let now = Instant::now();
        let mut rates = Rates::new(RATE, now);
        for _ in 0..10 {
            assert_eq!(rates.take(peer(2), 1, now), Ok(()));
        }
        assert_eq!(rates.take(peer(2), 1, now), Err(Duration::from_millis(500)));
        assert_eq!(rates.take(peer(2), 1, now + Duration::from_millis(500)), Ok(()));
        assert_eq!(rates.take(peer(2), 4, now + Duration::from_secs(1)), Err(Duration::from_millis(1500)));
    }

    #[test]
    fn each_caller_has_its_own_and_all_are_limited_together() {
        let now = Instant::now();
        let mut rates = Rates::new(RATE, now);
        for number in 1..=TOGETHER {
            assert_eq!(rates.take(peer(number), 10, now), Ok(()), "{number}");
        }
        assert!(rates.take(peer(TOGETHER + 1), 1, now).is_err(), "together they are limited too");
    }

    #[test]
    fn one_address_of_an_ipv6_network_uses_half_of_what_the_network_may() {
        let at = |ip: &str| Peer::from(ip.parse::<IpAddr>().unwrap());
        let now = Instant::now();
        let mut rates = Rates::new(RATE, now);
        assert_eq!(rates.take(at("2001:db8::1"), 5, now), Ok(()));
        assert!(rates.take(at("2001:db8::1"), 1, now).is_err());
        assert_eq!(rates.take(at("2001:db8::2"), 5, now), Ok(()));
        assert!(rates.take(at("2001:db8::3"), 1, now).is_err(), "the network is limited as before");
    }

    #[test]
    fn callers_are_remembered_up_to_a_number_and_the_busiest_longest() {
        let now = Instant::now();
        let generous = Rate { burst: 1_000_000, per_second: 1 };
        let mut rates = Rates::new(generous, now);
        rates.take(peer(0), 1_000_000, now).unwrap();
        for number in 1..=2 * u32::try_from(CALLERS).unwrap() {
            rates.take(peer(number), 1, now).unwrap();
        }
        assert_eq!(rates.by_scope.len(), CALLERS);
        assert!(rates.take(peer(0), 1, now).is_err(), "its burst is not forgotten");
    }
}
