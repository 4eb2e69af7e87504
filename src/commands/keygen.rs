//! `portcullis keygen`: a signing key that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use portcullis::homeserver::config::Config;
use portcullis::outbound::Ed25519Signer;

use super::{DONE, Trouble, say, status};

pub(crate) fn run(file: &Path) -> ExitCode {
    status(make(file))
}

fn make(file: &Path) -> Result<u8, Trouble> {
    // The file names no server: the name given here is not part of the key.
    let signer = Ed25519Signer::generate(Config::without_file().server_name);
    write_new(file, &signer.to_key_file_line()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} already exists and is not overwritten; choose another name", file.display())
        }
        _ => format!("{} cannot be written: {error}", file.display()),
    })?;
    say(&format!("{}: key {}, public half {}", file.display(), signer.key_id(), signer.verify_key()));
    Ok(DONE)
}

/// Writes a file that was not there before and that only its owner can read; half a file is not left behind.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened = options.open(file)?;
    opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()).inspect_err(|_| drop(fs::remove_file(file)))
}
