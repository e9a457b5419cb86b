//! Decides who counts as one caller: an IPv4 address, or the IPv6 network that one host can fill with addresses.
//! Such a network may also be that of all pods of a node, so that within it each address counts too. Never says whether a
//! caller may do something.

use std::net::{IpAddr, Ipv6Addr};

/// Who is at the other end of a connection, as far as limits are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

/// What limits are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// A caller: an IPv4 address or an IPv6 network.
    Caller(IpAddr),
    /// One address of an IPv6 network.
    Address(Ipv6Addr),
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        // A listener on all interfaces sees IPv4 callers under IPv6.
        Self(address.to_canonical())
    }
}

impl Peer {
    /// What counts as one caller.
    pub(crate) fn caller(self) -> Scope {
        match self.0 {
            IpAddr::V6(ip) => Scope::Caller(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into()),
            ip => Scope::Caller(ip),
        }
    }

    /// What counts within that caller; nothing where the caller is one address.
    pub(crate) fn address(self) -> Option<Scope> {
        match self.0 {
            IpAddr::V6(ip) => Some(Scope::Address(ip)),
            IpAddr::V4(_) => None,
        }
    }

    /// Both, the narrower first.
    pub(crate) fn scopes(self) -> impl Iterator<Item = Scope> {
        self.address().into_iter().chain([self.caller()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn one_host_is_one_caller_whatever_addresses_it_takes() {
        assert_eq!(peer("127.0.0.2"), peer("::ffff:127.0.0.2"));
        assert_eq!(peer("2001:db8::1").caller(), peer("2001:db8::ffff:ffff:ffff:ffff").caller());
        assert_ne!(peer("2001:db8::1").caller(), peer("2001:db8:0:1::1").caller());
        assert_ne!(peer("127.0.0.1").caller(), peer("127.0.0.2").caller());
    }

    #[test]
    fn within_an_ipv6_network_each_address_counts_too() {
        assert_ne!(peer("2001:db8::1").address(), peer("2001:db8::2").address());
        assert_eq!(peer("127.0.0.1").address(), None);
        // The first address of a network is not the network.
        assert_eq!(peer("2001:db8::").scopes().collect::<std::collections::HashSet<_>>().len(), 2);
    }
}
