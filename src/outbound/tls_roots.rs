//! [`TlsRoots`]: the certificate authorities that other servers are checked against.
//!
//! A machine without any would fail at the first call, and one with nothing but an extra authority would trust that alone
//! without a word. Both stop the start instead.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// Certificate authorities. Always: at least one.
///
/// ```no_run
/// use std::path::Path;
/// use portcullis::outbound::{TlsRoots, TlsRootsError};
///
/// fn roots() -> Result<TlsRoots, TlsRootsError> {
///     TlsRoots::system()?.with_extra_file(Path::new("/etc/our-server/private-federation.pem"))
/// }
/// ```
#[derive(Clone)]
pub struct TlsRoots {
    store: RootCertStore,
}

/// There are no certificate authorities to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsRootsError {
    /// The system has none; see `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    #[error("this system has no certificate authorities (install them, or set SSL_CERT_FILE or SSL_CERT_DIR)")]
    NoSystemRoots,
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate in the text.
    #[error("there is no certificate in it")]
    NoCertificates,
    /// What is marked as a certificate is none.
    #[error("what is marked as a certificate in it is none")]
    NotACertificate,
    /// The TLS library was built without a protocol we use.
    #[error("TLS 1.2 and 1.3 are not available")]
    NoProtocol,
}

impl TlsRoots {
    /// The authorities of the operating system, or those `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    ///
    /// *Errors:* [`TlsRootsError::NoSystemRoots`]. *Blocking:* reads files, tens of milliseconds.
    pub fn system() -> Result<Self, TlsRootsError> {
        let mut store = RootCertStore::empty();
        // A system's store may hold an antiquity that cannot be parsed: the others still count.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() { Err(TlsRootsError::NoSystemRoots) } else { Ok(Self { store }) }
    }

    /// The authorities in `pem` and no others.
    ///
    /// *Errors:* [`TlsRootsError`]. *Blocking:* no.
    pub fn only(pem: &[u8]) -> Result<Self, TlsRootsError> {
        Self { store: RootCertStore::empty() }.with_extra(pem)
    }

    /// These and the authorities in `pem`.
    ///
    /// *Errors:* [`TlsRootsError`], if a single certificate cannot be used or there is none. *Blocking:* no.
    pub fn with_extra(mut self, pem: &[u8]) -> Result<Self, TlsRootsError> {
        let mut found = false;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| TlsRootsError::NotACertificate)?;
            self.store.add(certificate).map_err(|_| TlsRootsError::NotACertificate)?;
            found = true;
        }
        if found { Ok(self) } else { Err(TlsRootsError::NoCertificates) }
    }

    /// These and the authorities in the PEM file at `path`.
    ///
    /// *Errors:* [`TlsRootsError`]. *Blocking:* reads the file.
    pub fn with_extra_file(self, path: &Path) -> Result<Self, TlsRootsError> {
        let pem = std::fs::read(path).map_err(|source| TlsRootsError::Unreadable { path: path.to_owned(), source })?;
        self.with_extra(&pem)
    }

    /// The TLS settings of every call: clones share the sessions that can be resumed.
    pub(crate) fn into_client_config(self) -> Result<ClientConfig, TlsRootsError> {
        // Named, not the process default: another crate of the binary may have brought a second provider in.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsRootsError::NoProtocol)?
            .with_root_certificates(self.store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl fmt::Debug for TlsRoots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TlsRoots").field("authorities", &self.store.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GARBLED: &str = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_text_without_certificates_is_an_error() {
        for text in ["", "nothing here", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(matches!(TlsRoots::only(text.as_bytes()), Err(TlsRootsError::NoCertificates)), "{text:?}");
        }
    }

    #[test]
    fn a_garbled_certificate_is_an_error_and_not_skipped() {
        for text in [GARBLED, "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(TlsRoots::only(text.as_bytes()), Err(TlsRootsError::NotACertificate)), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let roots = TlsRoots { store: RootCertStore::empty() };
        let error = roots.with_extra_file(Path::new("/nowhere/ca.pem")).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere/ca.pem cannot be read");
    }
}
