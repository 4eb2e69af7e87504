//! The files a configuration names: the signing key and the extra certificates.

use std::fs;
use std::io;
use std::path::Path;

use crate::outbound::key_file::read_regular;
use crate::outbound::{Ed25519Signer, KeyFileError, TlsRoots, TlsRootsError};
use crate::proxy::media_store::MediaStore;
use crate::server_name::ServerName;

/// Twenty times what a system's whole list of authorities takes.
const MAX_CA_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Whether the files that a configuration names are opened while it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedFiles {
    /// Their paths alone are read.
    NotOpened,
    /// What is wrong with one of them is a mistake of the key that names it.
    Checked,
}

/// Where an operator has the key from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOf {
    /// The homeserver behind, whose key other servers know.
    HomeserverBehind,
    /// Nobody else.
    OwnMaking,
}

impl KeyOf {
    /// Whose key it is, if there is a homeserver behind or not.
    pub(crate) fn whose(is_in_front: bool) -> Self {
        if is_in_front { Self::HomeserverBehind } else { Self::OwnMaking }
    }

    fn advice(self) -> &'static str {
        match self {
            // Another key would be one that no server accepts.
            Self::HomeserverBehind => "it is the homeserver's own: signing_key_path in homeserver.yaml says where",
            Self::OwnMaking => "portcullis keygen makes one",
        }
    }
}

/// Where systemd puts what it hands to a service.
const CREDENTIALS: &str = "/run/credentials/";

/// The signer for `server_name` whose key is in the file at `path`.
///
/// *Errors:* what is wrong, without a word of the file. *Blocking:* reads it.
pub(crate) fn signer(path: &Path, server_name: ServerName, whose: KeyOf) -> Result<Ed25519Signer, String> {
    Ed25519Signer::read_key_file(server_name, path).map_err(|error| match error {
        KeyFileError::Unreadable { .. } if path.starts_with(CREDENTIALS) => {
            format!("{error} (systemd keeps it there only while the service runs)")
        }
        KeyFileError::Unreadable { .. } | KeyFileError::Invalid { .. } => format!("{error} ({})", whose.advice()),
    })
}

/// `roots` and the certificates in the file at `path`.
///
/// *Errors:* what is wrong. *Blocking:* reads the file.
pub(crate) fn with_extra_ca(roots: TlsRoots, path: &Path) -> Result<TlsRoots, String> {
    roots.with_extra(&pem(path)?).map_err(|error| explained(path, &error))
}

/// Whether certificates can be read from `path`, whatever the system has.
pub(super) fn check_extra_ca(path: &Path) -> Result<(), String> {
    TlsRoots::only(&pem(path)?).map(drop).map_err(|error| explained(path, &error))
}

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    read_regular(path, MAX_CA_FILE_BYTES).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Whether files can be kept in the directory at `path`. Where there is none yet, whether one can be made; it is not made.
pub(super) fn check_cache_dir(path: &Path) -> Result<(), String> {
    if fs::symlink_metadata(path).is_ok() {
        return MediaStore::judge_folder(path).map_err(|error| error.to_string());
    }
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    // A relative path starts where the process does.
    for at in above.chain([Path::new(".")]) {
        match fs::metadata(at) {
            Ok(there) if there.is_dir() => {
                let usable = tempfile::tempfile_in(at).map(drop);
                return usable.map_err(|error| format!("nothing can be made in {}: {error}", at.display()));
            }
            Ok(_) => return Err(format!("{} is not a folder", at.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{} cannot be looked at: {error}", at.display())),
        }
    }
    Err(format!("there is no folder to make {} in", path.display()))
}

fn explained(path: &Path, error: &TlsRootsError) -> String {
    match error {
        TlsRootsError::Unreadable { source, .. } => format!("{} cannot be read: {source}", path.display()),
        other => format!("{}: {other}", path.display()),
    }
}

/// The permission bits of a key file that somebody besides its owner may read or replace.
#[cfg(unix)]
pub(super) fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o066 != 0).then_some(mode)
}

/// Elsewhere permissions are not told in bits.
#[cfg(not(unix))]
pub(super) fn open_to_others(_path: &Path) -> Option<u32> {
    None
}
