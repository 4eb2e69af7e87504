//! [`BlockedServers`]: servers whose files are not fetched, whatever port they are asked for at.

use std::collections::HashSet;

use crate::server_name::{Host, ServerName};

/// Servers an operator does not want files of. One named without a port is blocked at every port: else its next port would
/// do.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockedServers {
    hosts: HashSet<Host>,
    at_one_port: HashSet<(Host, u16)>,
}

impl BlockedServers {
    /// Whether files of `server` are not fetched.
    pub(super) fn holds(&self, server: &ServerName) -> bool {
        self.hosts.contains(server.host())
            || self.at_one_port.contains(&(server.host().clone(), server.port_or_default()))
    }
}

impl FromIterator<ServerName> for BlockedServers {
    fn from_iter<I: IntoIterator<Item = ServerName>>(servers: I) -> Self {
        let mut blocked = Self::default();
        for server in servers {
            match server.port() {
                None => blocked.hosts.insert(server.host().clone()),
                Some(port) => blocked.at_one_port.insert((server.host().clone(), port)),
            };
        }
        blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_is_blocked_at_every_port_and_in_every_spelling() {
        let blocked: BlockedServers = ["bad.example", "worse.example:8449", "[2001:db8::1]"]
            .map(|name| name.parse().unwrap())
            .into_iter()
            .collect();
        for (server, expected) in [
            ("bad.example", true),
            ("BAD.example:8448", true),
            ("bad.example:443", true),
            ("worse.example:8449", true),
            ("worse.example", false),
            ("worse.example:443", false),
            ("[2001:DB8:0::1]:443", true),
            ("good.bad.example", false),
        ] {
            assert_eq!(blocked.holds(&server.parse().unwrap()), expected, "{server}");
        }
    }
}
