//! Decides who counts as one caller: an IPv4 address, or the IPv6 network that one host can fill with addresses.
//! Never says whether a caller may do something.

use std::net::{IpAddr, Ipv6Addr};

/// Who is at the other end of a connection, as far as limits are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        // A listener on all interfaces sees IPv4 callers under IPv6.
        match address.to_canonical() {
            IpAddr::V6(ip) => Self(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into()),
            ip => Self(ip),
        }
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
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:ffff:ffff:ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_ne!(peer("127.0.0.1"), peer("127.0.0.2"));
    }
}
