//! A DNS server that knows a few names and one IPv4 address, and remembers what it was asked. A name it does not know does not exist;
//! it never asks anybody else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

/// Loopback, and most likely nobody else's. A `resolv.conf` names no port.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 53, 53, 53)), 53);
const HEADER: usize = 12;
/// The type of a question for an IPv4 address.
const A: u16 = 1;

/// A running server. Dropping it stops it.
pub struct Dns {
    asked: Arc<Mutex<Vec<String>>>,
    _server: AbortOnDropHandle<()>,
}

impl Dns {
    /// Starts one that answers this address for these names.
    pub async fn start(names: &[&str], address: IpAddr) -> Self {
        let IpAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
        let socket = UdpSocket::bind(ADDRESS).await;
        let socket = socket.unwrap_or_else(|error| panic!("{ADDRESS}: {error}; only root may answer there"));
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let remembered = asked.clone();
        let server = tokio::spawn(async move {
            let mut packet = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut packet).await {
                let Some((name, answer)) = answer(&packet[..length], &names, address) else { continue };
                remembered.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                // Who does not wait any more asks again.
                let _ = socket.send_to(&answer, client).await;
            }
        });
        Self { asked, _server: AbortOnDropHandle::new(server) }
    }

    /// What stands in a `resolv.conf`.
    pub fn address(&self) -> IpAddr {
        ADDRESS.ip()
    }

    /// Every name it was asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it was asked for a name.
    pub fn was_asked_for(&self, name: &str) -> bool {
        self.asked().iter().any(|asked| asked == name)
    }
}

/// The name of a question and the answer to it.
fn answer(packet: &[u8], names: &[String], address: Ipv4Addr) -> Option<(String, Vec<u8>)> {
    let (labels, mut at) = (&mut Vec::new(), HEADER);
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let question = packet.get(HEADER..at + 4)?;
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    let name = labels.join(".");
    let known = names.contains(&name);
    let found = known && kind == A;
    let mut answer = packet.get(..2)?.to_vec();
    // An answer, recursion asked for and available; then whether there is such a name.
    answer.extend([0x81, if known { 0x80 } else { 0x83 }]);
    answer.extend([0, 1, 0, u8::from(found), 0, 0, 0, 0]);
    answer.extend(question);
    if found {
        // The name of the question, type and class, a minute, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some((name, answer))
}
