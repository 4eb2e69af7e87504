//! [`Wire`]: what is dialled, as the network sees it. Not what a fake accepted: a dial to nobody shows here too.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::namespace::NAME_SERVER;

/// A connection attempt: the first SYN of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dial {
    /// The port it came from, by which a fake's request can be told to belong to it.
    pub(crate) from: u16,
    pub(crate) to: SocketAddr,
}

/// Sees every outgoing SYN and every outgoing datagram of the namespace, whatever became of it.
///
/// Always: a packet is in here before the call that sent it returns.
pub(crate) struct Wire {
    socket: Socket,
    dials: Vec<Dial>,
    strays: Vec<SocketAddr>,
    /// Local ports whose packets are the test's own.
    own: Vec<u16>,
}

const EVERY_PROTOCOL: u16 = 3;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DNS: u16 = 53;

impl Wire {
    pub(crate) fn tap() -> Self {
        let protocol = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)).unwrap();
        socket.attach_filter(&filter()).unwrap();
        socket.set_nonblocking(true).unwrap();
        // As much as may be had: an overflow would lose dials.
        socket.set_recv_buffer_size(8 << 20).unwrap();
        Self { socket, dials: Vec::new(), strays: Vec::new(), own: Vec::new() }
    }

    /// Packets from this port are the test's own.
    pub(crate) fn ignore(&mut self, port: u16) {
        self.own.push(port);
    }

    /// Every dial so far, in order.
    pub(crate) fn dials(&mut self) -> Vec<Dial> {
        self.read();
        self.dials.clone()
    }

    /// Datagrams to anybody but the name server.
    pub(crate) fn strays(&mut self) -> Vec<SocketAddr> {
        self.read();
        self.strays.clone()
    }

    /// Forgets what was seen.
    pub(crate) fn clear(&mut self) {
        self.read();
        self.dials.clear();
        self.strays.clear();
    }

    fn read(&mut self) {
        let mut packet = [0; 128];
        loop {
            match (&self.socket).read(&mut packet) {
                Ok(length) => self.note(&packet[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the tap: {error}"),
            }
        }
    }

    fn note(&mut self, packet: &[u8]) {
        let (protocol, destination, rest) = if packet[0] >> 4 == 4 {
            let address: [u8; 4] = packet[16..20].try_into().unwrap();
            (packet[9], IpAddr::V4(Ipv4Addr::from(address)), &packet[usize::from(packet[0] & 0xf) * 4..])
        } else {
            let address: [u8; 16] = packet[24..40].try_into().unwrap();
            (packet[6], IpAddr::V6(Ipv6Addr::from(address)), &packet[40..])
        };
        let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        let (from, to) = (port(0), SocketAddr::new(destination, port(2)));
        if self.own.contains(&from) {
            return;
        }
        match protocol {
            // The same port again is the same attempt, sent once more for want of an answer.
            TCP if to != SocketAddr::from((NAME_SERVER, DNS)) => {
                let dial = Dial { from, to };
                if !self.dials.contains(&dial) {
                    self.dials.push(dial);
                }
            }
            UDP if to.ip() != NAME_SERVER || (to.port() != DNS && from != DNS) => self.strays.push(to),
            _ => {}
        }
    }
}

/// Lets through outgoing packets that are SYNs (not SYN-ACKs) or UDP; the data begins with the IP header.
fn filter() -> [SockFilter; 20] {
    const LOAD: u16 = 0x30;
    const LOAD_INDEXED: u16 = 0x50;
    const IPV4_HEADER_LENGTH: u16 = 0xb1;
    const AND: u16 = 0x54;
    const JUMP: u16 = 0x05;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PACKET_TYPE: u32 = 0xffff_f004;
    const OUTGOING: u32 = 4;
    let op = |code, operand| SockFilter::new(code, 0, 0, operand);
    // Skips so many instructions if equal, or if not.
    let either = |operand, equal, unequal| SockFilter::new(IF_EQUAL, equal, unequal, operand);
    [
        op(LOAD, PACKET_TYPE),
        either(OUTGOING, 0, 17),
        op(LOAD, 0),
        op(AND, 0xf0),
        either(0x40, 0, 6),
        op(LOAD, 9),
        either(UDP.into(), 11, 0),
        either(TCP.into(), 0, 11),
        op(IPV4_HEADER_LENGTH, 0),
        op(LOAD_INDEXED, 13),
        op(JUMP, 5),
        either(0x60, 0, 7),
        op(LOAD, 6),
        either(UDP.into(), 4, 0),
        either(TCP.into(), 0, 4),
        op(LOAD, 53),
        op(AND, 0x12),
        either(0x02, 0, 1),
        op(RETURN, 128),
        op(RETURN, 0),
    ]
}
