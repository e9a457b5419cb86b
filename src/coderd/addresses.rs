//! Which addresses we never dial by the word of DNS or a manifest: our own machine, its link, cloud metadata, groups, and
//! what `--deny-cidr` names. It judges an address; whether `--resolve` led there is for the caller to weigh.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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
    /// An IPv4 address that only a translator of this network can read.
    #[error("an address of a NAT64 translator")]
    Translated,
    /// No address at all; many systems dial loopback for it.
    #[error("an unspecified address")]
    Unspecified,
    /// Many receivers.
    #[error("a multicast or broadcast address")]
    Multicast,
    /// Whoever runs the operator said so.
    #[error("an address that --deny-cidr names")]
    Denied,
}

/// Alibaba Cloud's; the agent of Azure's hosts.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
/// Google Cloud's.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254);

/// Why this address must not be dialled, if it must not.
pub(crate) fn forbidden(address: IpAddr, denied: &[Cidr]) -> Option<Forbidden> {
    let led_to = match address {
        IpAddr::V6(six) => embedded(six).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    if denied.iter().any(|cidr| cidr.contains(address) || led_to.is_some_and(|inner| cidr.contains(inner))) {
        return Some(Forbidden::Denied);
    }
    match led_to.unwrap_or(address) {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<Forbidden> {
    match address {
        _ if address.is_loopback() => Some(Forbidden::Loopback),
        _ if address.is_link_local() => Some(Forbidden::LinkLocal),
        _ if METADATA_V4.contains(&address) => Some(Forbidden::Metadata),
        // The whole of 0.0.0.0/8 is "this host".
        _ if address.octets()[0] == 0 => Some(Forbidden::Unspecified),
        _ if address.is_multicast() || address.is_broadcast() => Some(Forbidden::Multicast),
        _ => None,
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<Forbidden> {
    match address.segments() {
        _ if address.is_loopback() => Some(Forbidden::Loopback),
        _ if address.is_unicast_link_local() => Some(Forbidden::LinkLocal),
        // All that Amazon serves to its machines: metadata, credentials of pods, time, names.
        [0xfd00, 0x0ec2, ..] => Some(Forbidden::Metadata),
        _ if address == METADATA_V6 => Some(Forbidden::Metadata),
        // For translators of a network's own: where in it the IPv4 address stands is for that network to say.
        [0x64, 0xff9b, 1, ..] => Some(Forbidden::Translated),
        _ if address.is_unspecified() => Some(Forbidden::Unspecified),
        _ if address.is_multicast() => Some(Forbidden::Multicast),
        _ => None,
    }
}

/// The IPv4 address that a mapped, compatible, translated (NAT64) or tunnelled (6to4) one leads to.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let [_, _, a, b, c, d, ..] = address.octets();
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, _] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            Some(Ipv4Addr::from_bits(bits as u32))
        }
        [0x2002, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

/// A range of addresses: one `--deny-cidr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u32,
}

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// It cannot be read.
    #[error("an address, or a range such as 10.0.0.0/8 or fd00::/8, is needed")]
    Shape,
    /// There are bits behind the prefix: the range may not be the one that was meant.
    #[error("the range begins at {0}, not at the address before the slash; write that")]
    HostBits(IpAddr),
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(one, two)| (one, Some(two)));
        let address: IpAddr = address.trim().parse().map_err(|_| CidrError::Shape)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix.map(str::trim) {
            None => bits,
            Some(text) if digits(text) => text.parse().map_err(|_| CidrError::Shape)?,
            Some(_) => return Err(CidrError::Shape),
        };
        if prefix > bits {
            return Err(CidrError::Shape);
        }
        let network = masked(address, prefix);
        if network == address { Ok(Self { network, prefix }) } else { Err(CidrError::HostBits(network)) }
    }
}

impl Cidr {
    fn contains(&self, address: IpAddr) -> bool {
        self.network.is_ipv4() == address.is_ipv4() && masked(address, self.prefix) == self.network
    }
}

/// The address with the first bits only.
fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(four.to_bits() & mask).into()
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(six.to_bits() & mask).into()
        }
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
            ("::127.0.0.1", Forbidden::Loopback),
            ("64:ff9b::7f00:1", Forbidden::Loopback),
            ("2002:7f00:1::", Forbidden::Loopback),
            ("169.254.169.254", Forbidden::LinkLocal),
            ("::ffff:169.254.169.254", Forbidden::LinkLocal),
            ("fe80::1", Forbidden::LinkLocal),
            ("100.100.100.200", Forbidden::Metadata),
            ("168.63.129.16", Forbidden::Metadata),
            ("::ffff:168.63.129.16", Forbidden::Metadata),
            ("64:ff9b::a83f:8110", Forbidden::Metadata),
            ("fd00:ec2::254", Forbidden::Metadata),
            ("fd00:ec2::23", Forbidden::Metadata),
            ("fd20:ce::254", Forbidden::Metadata),
            ("64:ff9b:1::", Forbidden::Translated),
            ("64:ff9b:1:fffe::a9fe:a9fe", Forbidden::Translated),
            ("0.0.0.0", Forbidden::Unspecified),
            ("0.1.2.3", Forbidden::Unspecified),
            ("::", Forbidden::Unspecified),
            ("224.0.0.1", Forbidden::Multicast),
            ("255.255.255.255", Forbidden::Multicast),
            ("ff02::1", Forbidden::Multicast),
        ] {
            assert_eq!(forbidden(text.parse().unwrap(), &[]), Some(reason), "{text}");
        }
    }

    #[test]
    fn services_pods_and_the_internet_are_not() {
        for text in [
            "10.96.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "93.184.216.34",
            "168.63.129.17",
            "fd12::1",
            "2606:2800::1",
            "64:ff9b:2::1",
        ] {
            assert_eq!(forbidden(text.parse().unwrap(), &[]), None, "{text}");
        }
    }

    #[test]
    fn denied_ranges_count_in_every_notation_of_their_addresses() {
        let denied: Vec<Cidr> =
            ["10.0.0.0/8", "192.0.2.7", "fd12::/16"].map(|text| text.parse().unwrap()).into();
        let refused = |text: &str| forbidden(text.parse().unwrap(), &denied);
        for text in [
            "10.0.0.0",
            "10.255.255.255",
            "::ffff:10.1.2.3",
            "64:ff9b::a01:203",
            "2002:a01:203::",
            "192.0.2.7",
            "fd12:1::1",
        ] {
            assert_eq!(refused(text), Some(Forbidden::Denied), "{text}");
        }
        for text in ["11.0.0.0", "192.0.2.8", "fd13::1"] {
            assert_eq!(refused(text), None, "{text}");
        }
        assert_eq!(refused("127.0.0.1"), Some(Forbidden::Loopback), "the built-in list stays in force");
        let all: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("93.184.216.34".parse().unwrap()) && !all.contains("fd12::1".parse().unwrap()));
    }

    #[test]
    fn a_range_is_read_strictly() {
        for text in
            ["", "10.0.0.0/", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/+8", "a/8", "10.0.0.0/8/8"]
        {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError::Shape), "{text}");
        }
        let begins = "10.0.0.0".parse().unwrap();
        assert_eq!("10.1.2.3/8".parse::<Cidr>(), Err(CidrError::HostBits(begins)));
        assert_eq!("10.1.2.3".parse(), Ok(Cidr { network: "10.1.2.3".parse().unwrap(), prefix: 32 }));
    }
}
