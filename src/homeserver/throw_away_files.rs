//! [`ThrowAwayFiles`]: a directory for files of other servers that ends with the process, for whoever names none.

use std::path::Path;

use tempfile::TempDir;

use super::assemble::StartError;
use super::config::{MediaCacheDir, MediaConfig};

/// A directory of this process alone, open to its user alone. Dropping it removes it and what is in it.
#[derive(Debug)]
pub(super) struct ThrowAwayFiles(TempDir);

impl ThrowAwayFiles {
    /// The directory, if files are fetched and nobody says where they are kept.
    ///
    /// *Errors:* [`StartError`]: the system's place for such directories cannot be written to. *Blocking:* makes one
    /// directory.
    pub(super) fn of(media: &MediaConfig) -> Result<Option<Self>, StartError> {
        if media.cache_dir != MediaCacheDir::ThrowAway || !media.policy().remote_fetch_enabled {
            return Ok(None);
        }
        let made = tempfile::Builder::new().prefix("portcullis-media-").tempdir();
        made.map(|directory| Some(Self(directory)))
            .map_err(|error| StartError::of("media.cache_dir", &format!("a directory cannot be made: {error}")))
    }

    /// Where it is.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::homeserver::assemble::assemble_trusting;
    use crate::homeserver::config::Config;
    use crate::outbound::TlsRoots;

    #[test]
    fn there_is_a_directory_only_where_files_come_and_none_is_named_and_it_ends_with_its_owner() {
        let mut media = MediaConfig::default();
        assert!(ThrowAwayFiles::of(&media).unwrap().is_none(), "the switch is off");
        media.remote_fetch_enabled = Some(true);
        let files = ThrowAwayFiles::of(&media).unwrap().unwrap();
        let path = files.path().to_owned();
        std::fs::write(path.join("file"), "").unwrap();
        drop(files);
        assert!(!path.exists());
        media.cache_dir = MediaCacheDir::At("elsewhere".into());
        assert!(ThrowAwayFiles::of(&media).unwrap().is_none(), "a place is named");
    }

    #[test]
    fn a_homeserver_has_its_directory_until_it_ends() {
        let certificate = rcgen::generate_simple_self_signed(["them.example".to_owned()]).unwrap().cert.pem();
        let mut config = Config::without_file();
        config.media.remote_fetch_enabled = Some(true);
        config.federation.nameservers = vec!["127.0.0.1:9".parse().unwrap()];
        let assembled = assemble_trusting(&config, TlsRoots::only(certificate.as_bytes()).unwrap()).unwrap();
        // Whoever serves it keeps the runtime alone.
        let runtime = std::sync::Arc::clone(&assembled.runtime);
        drop(assembled);
        let path = runtime.files().unwrap().path().to_owned();
        assert!(path.is_dir());
        drop(runtime);
        assert!(!path.exists());
    }
}
