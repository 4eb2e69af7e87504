//! [`BlockedServers`]: whose files are not fetched.

use std::collections::HashSet;

use crate::server_name::{Host, ServerName};

/// Servers whose files are as if they did not exist. A name without a port stands for its host, whatever the port.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockedServers(HashSet<(Host, Option<u16>)>);

impl BlockedServers {
    pub(super) fn has(&self, server: &ServerName) -> bool {
        [None, Some(server.port_or_default())].into_iter().any(|port| self.0.contains(&(server.host().clone(), port)))
    }
}

impl FromIterator<ServerName> for BlockedServers {
    fn from_iter<T: IntoIterator<Item = ServerName>>(servers: T) -> Self {
        Self(servers.into_iter().map(|server| (server.host().clone(), server.port())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_port_blocks_every_port_and_one_with_a_port_that_alone() {
        let names = ["Spam.example", "them.example:8449", "other.example:8448", "192.0.2.1", "[2001:db8::1]:1"];
        let blocked: BlockedServers = names.into_iter().map(|name| name.parse().unwrap()).collect();
        for (name, is_blocked) in [
            ("spam.example", true),
            ("SPAM.example:8448", true),
            ("spam.example:1", true),
            ("not-spam.example", false),
            ("a.spam.example", false),
            ("them.example:8449", true),
            ("them.example", false),
            ("them.example:8448", false),
            ("other.example", true),
            ("other.example:8448", true),
            ("other.example:8449", false),
            ("192.0.2.1:99", true),
            ("192.0.2.2", false),
            ("[2001:DB8:0::1]:1", true),
            ("[2001:db8::1]", false),
        ] {
            assert_eq!(blocked.has(&name.parse().unwrap()), is_blocked, "{name}");
        }
        assert!(!BlockedServers::default().has(&"spam.example".parse().unwrap()));
    }
}
