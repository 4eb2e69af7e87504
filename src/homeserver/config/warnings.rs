//! What an operator should know although it stops nothing.

use std::collections::HashSet;

use super::files::open_to_others;
use super::{Config, ConfigError, SigningKeySource};
use crate::limits::DIRECTORY_DEADLINE;

impl Config {
    /// What an operator should know although it stops nothing, each with its line.
    ///
    /// *Panics:* never. *Blocking:* looks at the permissions of the key file.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        if let SigningKeySource::File(path) = &self.signing_key
            && let Some(mode) = open_to_others(path)
        {
            let problem = format!("{} is open to others (mode {mode:o}); chmod 600 it", path.display());
            warnings.push(self.problem("signing_key", problem));
        }
        warnings.extend(self.aliases_without_a_room());
        if self.media.remote_fetch_enabled.is_none() {
            warnings.push(self.problem("media.remote_fetch_enabled", "not set, so remote media is off; write false"));
        }
        if self.federation.remote_timeout.is_some_and(|limit| limit >= DIRECTORY_DEADLINE) {
            let built_in = DIRECTORY_DEADLINE.as_secs();
            let problem = format!("has no effect: lookups end after {built_in} s anyway; write less, such as \"5 s\"");
            warnings.push(self.problem("federation.remote_timeout", problem));
        }
        warnings
    }

    fn aliases_without_a_room(&self) -> impl Iterator<Item = ConfigError> {
        let rooms: HashSet<&str> = self.rooms.iter().map(|room| room.room_id.as_str()).collect();
        let lost = self.aliases.iter().enumerate().filter(move |(_, alias)| !rooms.contains(alias.room_id.as_str()));
        lost.map(|(index, alias)| {
            self.problem(&format!("aliases[{index}].room_id"), format!("no [[rooms]] has the id {:?}", alias.room_id))
        })
    }
}
