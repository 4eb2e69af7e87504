//! [`RemoteFetchPolicy`]: the switch of remote media, and [`RemoteFetchAllowed`]: the proof that it was asked.

use serde::Deserialize;

use super::media_id::RemoteFile;
use super::refusal::Refusal;
use crate::server_name::ServerName;

/// Whether files of other servers are fetched at all. Off unless the operator says otherwise.
///
/// ```
/// use portcullis::Refusal;
/// use portcullis::media::{AllowRemote, RemoteFetchPolicy, RemoteFile};
///
/// let file = RemoteFile { server: "them.example".parse().unwrap(), media_id: "abc".parse().unwrap() };
/// let off = RemoteFetchPolicy::default();
/// assert_eq!(off.check(file.clone(), AllowRemote::Yes).unwrap_err(), Refusal::RemoteFetchOff);
/// let on = RemoteFetchPolicy { remote_fetch_enabled: true };
/// assert_eq!(on.check(file.clone(), AllowRemote::No).unwrap_err(), Refusal::RemoteFetchOff);
/// assert!(on.check(file, AllowRemote::Yes).is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteFetchPolicy {
    /// The switch; absent means off.
    #[serde(default)]
    pub remote_fetch_enabled: bool,
}

/// What a client says about `allow_remote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowRemote {
    /// Nothing, or `true`.
    Yes,
    /// Anything else: not to be fetched for this request, and not to be passed on.
    No,
}

/// Proof that the switch and the client let this file be fetched. Only [`RemoteFetchPolicy::check`] makes one, and no media
/// call is opened without it.
///
/// ```compile_fail,E0451
/// use portcullis::media::{RemoteFetchAllowed, RemoteFile};
///
/// fn forge(file: RemoteFile) -> RemoteFetchAllowed {
///     RemoteFetchAllowed { file } // there is no other way to make one: its field is private
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it is the key to a media call"]
pub struct RemoteFetchAllowed {
    file: RemoteFile,
}

impl RemoteFetchPolicy {
    /// Asks the switch, before anything is looked up, cached copies included.
    ///
    /// *Errors:* [`Refusal::RemoteFetchOff`], a 404. *Panics:* never. *Blocking:* no.
    pub fn check(&self, file: RemoteFile, allow_remote: AllowRemote) -> Result<RemoteFetchAllowed, Refusal> {
        if self.remote_fetch_enabled && allow_remote == AllowRemote::Yes {
            Ok(RemoteFetchAllowed { file })
        } else {
            Err(Refusal::RemoteFetchOff)
        }
    }
}

impl RemoteFetchAllowed {
    /// The file it is for.
    #[must_use]
    pub fn file(&self) -> &RemoteFile {
        &self.file
    }

    /// The server the file belongs to.
    #[must_use]
    pub fn destination(&self) -> &ServerName {
        &self.file.server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r06_the_switch_is_off_unless_it_says_true_and_a_misspelt_key_is_an_error() {
        assert!(!RemoteFetchPolicy::default().remote_fetch_enabled);
        assert!(!serde_json::from_str::<RemoteFetchPolicy>("{}").unwrap().remote_fetch_enabled);
        let on = serde_json::from_str::<RemoteFetchPolicy>(r#"{"remote_fetch_enabled":true}"#).unwrap();
        assert!(on.remote_fetch_enabled);
        assert!(serde_json::from_str::<RemoteFetchPolicy>(r#"{"remote_fetch_enable":true}"#).is_err());
        assert!(serde_json::from_str::<RemoteFetchPolicy>(r#"{"remote_fetch_enabled":"true"}"#).is_err());
    }
}
