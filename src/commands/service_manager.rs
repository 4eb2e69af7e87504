//! Tells the service manager, systemd or another that speaks its protocol, when the server is ready and when it stops: a
//! datagram each, to the socket that it names in `NOTIFY_SOCKET`. Without the variable there is nobody to tell.

/// What the service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Clients are answered from now on.
    Ready,
    /// The server stops: requests in flight are answered first.
    Stopping,
}

/// Tells the service manager, if there is one. *Blocking:* no; one that does not listen is not waited for.
pub(crate) fn notify(news: News) {
    #[cfg(unix)]
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = unix::send(news.message(), &socket)
    {
        tracing::warn!(target: "portcullis::serve", "the service manager was not told: NOTIFY_SOCKET: {error}");
    }
    #[cfg(not(unix))]
    let _ = news.message();
}

impl News {
    fn message(self) -> &'static str {
        match self {
            Self::Ready => "READY=1",
            Self::Stopping => "STOPPING=1",
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::io;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    pub(super) fn send(message: &str, to: &OsStr) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(message.as_bytes(), &address(to)?).map(drop)
    }

    /// A path, or `@` and a name without one.
    fn address(named: &OsStr) -> io::Result<SocketAddr> {
        match named.as_bytes() {
            [b'/', ..] => SocketAddr::from_pathname(named),
            [b'@', name @ ..] => abstract_name(name),
            _ => Err(no_address()),
        }
    }

    #[cfg(target_os = "linux")]
    fn abstract_name(name: &[u8]) -> io::Result<SocketAddr> {
        use std::os::linux::net::SocketAddrExt as _;
        SocketAddr::from_abstract_name(name)
    }

    #[cfg(not(target_os = "linux"))]
    fn abstract_name(_: &[u8]) -> io::Result<SocketAddr> {
        Err(no_address())
    }

    fn no_address() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor @ and a name")
    }
}
