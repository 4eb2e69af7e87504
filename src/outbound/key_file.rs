//! A signing key out of its file, by path.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::limits::MAX_KEY_FILE_BYTES;
use crate::outbound::signing::{Ed25519Signer, InvalidSigningKey};
use crate::server_name::ServerName;

/// A key file cannot be used. No word of the file is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It is not there, not a regular file, too large, or not for this process to read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is in it is no signing key.
    #[error("{} is not usable: {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: InvalidSigningKey,
    },
}

impl Ed25519Signer {
    /// The signer for `own_name` whose key is in the file at `path`, in the format that homeservers share (see
    /// [`from_key_text`](Self::from_key_text)). The file has to be a regular one of at most 64 KiB: a pipe would be waited
    /// for. Who else may read it is not looked at.
    ///
    /// *Errors:* [`KeyFileError`]. *Panics:* never. *Blocking:* reads the file.
    ///
    /// ```
    /// use portcullis::outbound::{Ed25519Signer, KeyFileError};
    ///
    /// let missing = Ed25519Signer::read_key_file("us.example".parse().unwrap(), "/nowhere/signing.key");
    /// assert!(matches!(missing, Err(KeyFileError::Unreadable { .. })));
    /// ```
    pub fn read_key_file(own_name: ServerName, path: impl AsRef<Path>) -> Result<Self, KeyFileError> {
        let path = path.as_ref();
        let text = read_regular(path, MAX_KEY_FILE_BYTES)
            .map_err(|source| KeyFileError::Unreadable { path: path.to_owned(), source })?;
        Self::from_key_text(own_name, &String::from_utf8_lossy(&text))
            .map_err(|source| KeyFileError::Invalid { path: path.to_owned(), source })
    }
}

/// A regular file of at most `max` bytes, whole: a pipe would be waited for, and a device never ends.
pub(crate) fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Result<Ed25519Signer, KeyFileError> {
        Ed25519Signer::read_key_file("us.example".parse().unwrap(), path)
    }

    #[test]
    fn a_key_is_read_by_its_path_and_what_is_wrong_names_the_file_and_nothing_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signing.key");
        let signer = Ed25519Signer::generate("us.example".parse().unwrap());
        fs::write(&path, signer.to_key_file_line()).unwrap();
        assert_eq!(read(&path).unwrap().verify_key(), signer.verify_key());

        fs::write(&path, "ed25519 a_name hush").unwrap();
        let told = read(&path).unwrap_err();
        assert!(matches!(told, KeyFileError::Invalid { source: InvalidSigningKey::Seed, .. }));
        let told = told.to_string();
        assert!(told.contains("signing.key is not usable") && !told.contains("hush"), "{told}");

        assert!(read(folder.path()).unwrap_err().to_string().contains("it is not a regular file"));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none cannot be read"));
        let most = usize::try_from(MAX_KEY_FILE_BYTES).unwrap();
        fs::write(&path, format!("{}{}", signer.to_key_file_line(), " ".repeat(most))).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("it is larger than 65536 bytes"));
    }

    #[test]
    fn a_path_in_place_of_a_key_is_called_one() {
        let told = Ed25519Signer::from_key_text("us.example".parse().unwrap(), "/etc/us/signing.key").unwrap_err();
        assert!(told.to_string().contains("the path of a file"), "{told}");
    }
}
