//! [`transport_kind`]: what an error of the HTTP client says, for calls that somebody makes with a client of their own.

use std::error::Error;
use std::io;

use crate::outcome::TransportKind;

/// What kind of failure is behind `error`, if a `reqwest` error of the version this crate uses is in its chain of sources.
///
/// That is reqwest 0.13. To an error of another version, or of another client, the answer is `None`, whatever it says: tell
/// its kind by that client's own words, and hand that to [`Outcome::of_transport`](crate::Outcome::of_transport).
///
/// Nothing is known of an error without one, nor of one that only stands for a status: that status is what
/// [`Outcome::of_status`](crate::Outcome::of_status) is for. A connection that was not made in time counts as not
/// connected: nothing was sent, so the server is at work on nothing.
///
/// *Panics:* never. *Blocking:* no.
///
/// ```
/// use portcullis::outbound::transport_kind;
/// use portcullis::{Outcome, TransportKind};
///
/// let other = std::io::Error::other("not an error of the HTTP client");
/// assert_eq!(transport_kind(&other), None);
/// let outcome = Outcome::of_transport(transport_kind(&other).unwrap_or(TransportKind::Reset));
/// assert!(outcome.is_load());
/// ```
#[must_use]
pub fn transport_kind(error: &(dyn Error + 'static)) -> Option<TransportKind> {
    let error = chain(error).find_map(|error| error.downcast_ref::<reqwest::Error>())?;
    if error.is_connect() {
        Some(TransportKind::NotConnected)
    } else if error.is_timeout() {
        Some(TransportKind::TimedOut)
    } else if error.is_builder() {
        Some(TransportKind::NotBuildable)
    } else if error.is_redirect() {
        Some(TransportKind::RedirectLoop)
    } else if error.is_body() || error.is_decode() {
        Some(if is_malformed(error) { TransportKind::Undecodable } else { TransportKind::BodyCutOff })
    } else if error.is_request() {
        Some(TransportKind::Reset)
    } else {
        None
    }
}

/// Whether the body was there and no sense could be made of it. The client calls a body that was cut off undecodable too.
fn is_malformed(error: &reqwest::Error) -> bool {
    chain(error).any(|cause| {
        cause.is::<serde_json::Error>()
            || cause
                .downcast_ref::<io::Error>()
                .is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
    })
}

/// `error` and what is behind it. An I/O error names as its source only what is behind the error it carries.
fn chain<'error>(error: &'error (dyn Error + 'static)) -> impl Iterator<Item = &'error (dyn Error + 'static)> {
    let behind = |error: &&'error (dyn Error + 'static)| -> Option<&'error (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(carried) => Some(carried),
            None => (**error).source(),
        }
    };
    std::iter::successors(Some(error), behind)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    /// Says `answer` to whoever comes, and closes the connection if `closes`.
    async fn peer(answer: &'static str, closes: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            for _ in 0..32 {
                let (mut stream, _): (TcpStream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                if !closes {
                    open.push(stream);
                }
            }
        });
        format!("http://{address}/")
    }

    async fn failure(url: &str, timeout: Duration) -> reqwest::Error {
        let client = reqwest::Client::builder().no_proxy().timeout(timeout).build().unwrap();
        let mut response = match client.get(url).send().await {
            Ok(response) => response,
            Err(error) => return error,
        };
        loop {
            match response.chunk().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a whole answer"),
                Err(error) => return error,
            }
        }
    }

    const PATIENT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn each_failure_of_a_real_client_has_its_kind() {
        // Bound and never listening: nobody else gets the port, and whoever calls is refused.
        let deaf = TcpSocket::new_v4().unwrap();
        deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed = deaf.local_addr().unwrap();
        let cases = [
            (format!("http://{closed}/"), PATIENT, TransportKind::NotConnected),
            ("http://\u{0}/".to_owned(), PATIENT, TransportKind::NotBuildable),
            (peer("", true).await, PATIENT, TransportKind::Reset),
            (peer("", false).await, Duration::from_millis(50), TransportKind::TimedOut),
            (peer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour", true).await, PATIENT, TransportKind::BodyCutOff),
            (
                peer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour", false).await,
                Duration::from_millis(50),
                TransportKind::TimedOut,
            ),
            (
                peer("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n", true).await,
                PATIENT,
                TransportKind::Undecodable,
            ),
            (
                peer("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n", true).await,
                PATIENT,
                TransportKind::RedirectLoop,
            ),
        ];
        for (url, timeout, kind) in cases {
            let error = failure(&url, timeout).await;
            assert_eq!(transport_kind(&error), Some(kind), "{error:?}");
            let wrapped = io::Error::other(error);
            assert_eq!(transport_kind(&wrapped), Some(kind), "behind another error");
        }
    }

    #[test]
    fn of_other_errors_nothing_is_known() {
        assert_eq!(transport_kind(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }
}
