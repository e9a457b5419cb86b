//! Which addresses we never dial by the word of DNS or a manifest: our own machine, its link, cloud metadata, groups.
//! It judges an address; whether `--resolve` led there is for the caller to weigh.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The operator's own pod.
    #[error("a loopback address")]
    Loopback,
    /// Neighbours, and the metadata service of most clouds.
    #[error("a link-local address")]
    LinkLocal,
    /// A cloud's metadata service outside the link-local range.
    #[error("the address of a cloud metadata service")]
    Metadata,
    /// No address at all; many systems dial loopback for it.
    #[error("an unspecified address")]
    Unspecified,
    /// Many receivers.
    #[error("a multicast or broadcast address")]
    Multicast,
}

const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);

/// Why this address must not be dialled, if it must not.
pub fn forbidden(address: IpAddr) -> Option<Forbidden> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => forbidden_v4(inner),
            None => forbidden_v6(address),
        },
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<Forbidden> {
    match address {
        _ if address.is_loopback() => Some(Forbidden::Loopback),
        _ if address.is_link_local() => Some(Forbidden::LinkLocal),
        _ if address == METADATA_V4 => Some(Forbidden::Metadata),
        // The whole of 0.0.0.0/8 is "this host".
        _ if address.octets()[0] == 0 => Some(Forbidden::Unspecified),
        _ if address.is_multicast() || address.is_broadcast() => Some(Forbidden::Multicast),
        _ => None,
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<Forbidden> {
    match address {
        _ if address.is_loopback() => Some(Forbidden::Loopback),
        _ if address.is_unicast_link_local() => Some(Forbidden::LinkLocal),
        _ if address == METADATA_V6 => Some(Forbidden::Metadata),
        _ if address.is_unspecified() => Some(Forbidden::Unspecified),
        _ if address.is_multicast() => Some(Forbidden::Multicast),
        _ => None,
    }
}

/// The IPv4 address that a mapped, translated (NAT64) or tunnelled (6to4) one leads to.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let [_, _, a, b, c, d, ..] = address.octets();
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            Some(Ipv4Addr::from_bits(bits as u32))
        }
        [0x2002, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_or_the_clouds_is_refused_in_every_notation() {
        for (text, reason) in [
            ("127.0.0.1", Forbidden::Loopback),
            ("127.8.8.8", Forbidden::Loopback),
            ("::1", Forbidden::Loopback),
            ("::ffff:127.0.0.1", Forbidden::Loopback),
            ("64:ff9b::7f00:1", Forbidden::Loopback),
            ("2002:7f00:1::", Forbidden::Loopback),
            ("169.254.169.254", Forbidden::LinkLocal),
            ("::ffff:169.254.169.254", Forbidden::LinkLocal),
            ("fe80::1", Forbidden::LinkLocal),
            ("100.100.100.200", Forbidden::Metadata),
            ("fd00:ec2::254", Forbidden::Metadata),
            ("0.0.0.0", Forbidden::Unspecified),
            ("0.1.2.3", Forbidden::Unspecified),
            ("::", Forbidden::Unspecified),
            ("224.0.0.1", Forbidden::Multicast),
            ("255.255.255.255", Forbidden::Multicast),
            ("ff02::1", Forbidden::Multicast),
        ] {
            assert_eq!(forbidden(text.parse().unwrap()), Some(reason), "{text}");
        }
    }

    #[test]
    fn services_pods_and_the_internet_are_not() {
        for text in ["10.96.0.1", "172.16.0.1", "192.168.1.1", "93.184.216.34", "fd12::1", "2606:2800::1"] {
            assert_eq!(forbidden(text.parse().unwrap()), None, "{text}");
        }
    }
}
