//! What an operator should know although it stops nothing.

use std::collections::HashSet;

use super::files::open_to_others;
use super::{Config, ConfigError, SigningKeySource};
use crate::limits::{DIRECTORY_DEADLINE, MEDIA_DEADLINE};

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
        warnings.extend(self.tokens_in_the_clear());
        warnings.extend(self.aliases_without_a_room());
        warnings.extend(self.about_media());
        warnings.extend(self.timeout_without_effect());
        warnings
    }

    /// Everybody's access token goes that way.
    fn tokens_in_the_clear(&self) -> Option<ConfigError> {
        let upstream = self.upstream.as_ref().filter(|upstream| !upstream.is_encrypted())?;
        // A name is the operator's own, in a network of containers most often.
        let elsewhere = upstream.address().is_some_and(|address| !address.is_loopback());
        elsewhere.then(|| {
            let problem =
                "access tokens leave this machine unencrypted; write https://, or see that nobody listens there";
            self.problem("homeserver.upstream", problem)
        })
    }

    fn about_media(&self) -> Option<ConfigError> {
        let media = &self.media;
        let (key, problem) = match media.remote_fetch_enabled {
            None => ("remote_fetch_enabled", "not set, so remote media is off; write true or false"),
            Some(false) if media.legacy_endpoints => {
                ("legacy_endpoints", "has no effect: remote media is off (remote_fetch_enabled = false)")
            }
            Some(true) if self.upstream.is_none() && self.tokens.is_empty() && !media.legacy_endpoints => {
                ("remote_fetch_enabled", "files are for those with a token alone, and there are no [[tokens]]")
            }
            Some(_) => return None,
        };
        Some(self.problem(&format!("media.{key}"), problem))
    }

    fn timeout_without_effect(&self) -> Option<ConfigError> {
        let limit = self.federation.remote_timeout?.as_duration();
        let (lookups, files) = (DIRECTORY_DEADLINE.as_secs(), MEDIA_DEADLINE.as_secs());
        let anyway = match self.media.remote_fetch_enabled {
            Some(true) if limit >= MEDIA_DEADLINE => format!("lookups end after {lookups} s and files after {files} s"),
            None | Some(false) if limit >= DIRECTORY_DEADLINE => format!("lookups end after {lookups} s"),
            _ => return None,
        };
        let problem = format!("has no effect: {anyway} anyway; write less, such as \"5 s\"");
        Some(self.problem("federation.remote_timeout", problem))
    }

    fn aliases_without_a_room(&self) -> impl Iterator<Item = ConfigError> {
        let rooms: HashSet<&str> = self.rooms.iter().map(|room| room.room_id.as_str()).collect();
        let lost = self.aliases.iter().enumerate().filter(move |(_, alias)| !rooms.contains(alias.room_id.as_str()));
        lost.map(|(index, alias)| {
            self.problem(&format!("aliases[{index}].room_id"), format!("no [[rooms]] has the id {:?}", alias.room_id))
        })
    }
}
