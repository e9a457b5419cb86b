//! Loopback ports for programs that cannot be handed a bound socket.
//! A port that was given out belongs to this process until it ends; it is never bound here.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::Mutex;

/// Below the ports that systems choose for outgoing connections and for listeners that do not care: none of those can
/// take one of ours between its choice and the start of the program it is for.
const RANGE: Range<u16> = 20_000..30_000;

/// Nothing here speaks UDP, so the UDP port of the same number says to every other test process that one is taken, and
/// the system gives it back however we end.
static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// `N` distinct ports that no other test process is given.
pub fn free<const N: usize>() -> [u16; N] {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::array::from_fn(|_| {
        let (port, mark) = RANGE.clone().find_map(take).expect("a free loopback port");
        taken.push(mark);
        port
    })
}

fn take(port: u16) -> Option<(u16, UdpSocket)> {
    let mark = UdpSocket::bind(loopback(port)).ok()?;
    // Something else on this machine may listen there; our own programs may end a moment after us.
    TcpListener::bind(loopback(port)).ok()?;
    Some((port, mark))
}

/// The loopback address with this port.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
