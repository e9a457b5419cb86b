//! Free loopback ports for programs that cannot be handed a bound socket.
//! A port may be lost to another process before it is used, so starters retry; it is never reserved here.

use std::net::{SocketAddr, TcpListener};

/// `N` distinct ports that were free a moment ago.
pub fn free<const N: usize>() -> [u16; N] {
    // All are held at once, so that they differ from each other.
    let held: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a free loopback port"));
    held.each_ref().map(|socket| socket.local_addr().expect("a bound socket has an address").port())
}

/// The loopback address with this port.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
