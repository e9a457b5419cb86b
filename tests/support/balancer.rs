//! A TCP balancer: one port in front of several replicas, as a Service is.
//! It sends each new connection to the next backend that accepts it; it never looks inside.

use crate::ports;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A running balancer. Dropping it closes every connection.
pub struct Balancer {
    address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Balancer {
    /// Starts one in front of these backends.
    pub async fn start(backends: Vec<SocketAddr>) -> Self {
        Self::start_at(ports::loopback(0).ip(), backends).await
    }

    /// The same at another address of this machine.
    pub async fn start_at(address: IpAddr, backends: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = tokio::spawn(serve(listener, Arc::new(backends)));
        Self { address, _server: AbortOnDropHandle::new(server) }
    }

    /// The port clients dial.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn serve(listener: TcpListener, backends: Arc<Vec<SocketAddr>>) {
    let turn = Arc::new(AtomicUsize::new(0));
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (backends, turn) = (backends.clone(), turn.clone());
        connections.spawn(async move {
            for _ in 0..backends.len() {
                let next = backends[turn.fetch_add(1, Ordering::Relaxed) % backends.len()];
                if let Ok(mut backend) = TcpStream::connect(next).await {
                    // Either side may hang up first; that is how connections end.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
                    return;
                }
            }
        });
    }
}
