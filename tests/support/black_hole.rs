//! An address on loopback that nothing answers at: a listener whose queue is full drops every SYN, as a firewall would.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;

/// A connect that takes longer finds the queue full.
const FULL_AFTER: Duration = Duration::from_millis(200);
/// Many more than a queue of length zero takes.
const ENOUGH: usize = 16;

pub(crate) struct BlackHole {
    address: SocketAddr,
    _listener: Socket,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    pub(crate) async fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(connected) = tokio::time::timeout(FULL_AFTER, TcpStream::connect(address)).await {
            queued.push(connected.unwrap());
            assert!(queued.len() < ENOUGH, "the queue does not fill");
        }
        Self { address, _listener: listener, _queued: queued }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
