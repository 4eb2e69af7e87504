//! [`Reply`]: what a fake answers, in the shapes that networks and strangers give it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{self, AsyncWrite, AsyncWriteExt as _};

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) pace: Pace,
    /// Waits so long before the first byte.
    pub(crate) delay: Duration,
    /// As chunks, one per write, instead of with a length.
    pub(crate) chunked: bool,
    /// Takes the request and never says a word.
    pub(crate) silent: bool,
}

/// How the body is written.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    Whole,
    /// Byte by byte, with this pause after each.
    Drip(Duration),
    /// In writes of these lengths, with this pause after each; the rest in one.
    Segments(Vec<usize>, Duration),
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            pace: Pace::Whole,
            delay: Duration::ZERO,
            chunked: false,
            silent: false,
        }
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::new(200, body).header("content-type", "application/json")
    }

    /// A well-known file that delegates to `server`.
    pub(crate) fn delegating_to(server: &str) -> Self {
        Self::json(&format!(r#"{{"m.server":"{server}"}}"#))
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::new(status, "").header("location", location)
    }

    pub(crate) fn silence() -> Self {
        Self { silent: true, ..Self::new(200, "") }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub(crate) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    #[must_use]
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Writes it; counts the body's bytes that were taken.
    pub(crate) async fn write(&self, stream: &mut (impl AsyncWrite + Unpin), taken: &AtomicUsize) -> io::Result<()> {
        tokio::time::sleep(self.delay).await;
        stream.write_all(&self.head()).await?;
        stream.flush().await?;
        let (pieces, pause) = match &self.pace {
            Pace::Whole => (vec![&self.body[..]], Duration::ZERO),
            Pace::Drip(pause) => (self.body.chunks(1).collect(), *pause),
            Pace::Segments(lengths, pause) => (self.cut_into(lengths), *pause),
        };
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            if self.chunked {
                stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            }
            stream.write_all(piece).await?;
            if self.chunked {
                stream.write_all(b"\r\n").await?;
            }
            stream.flush().await?;
            taken.fetch_add(piece.len(), Ordering::Relaxed);
            tokio::time::sleep(pause).await;
        }
        if self.chunked {
            stream.write_all(b"0\r\n\r\n").await?;
        }
        stream.flush().await
    }

    fn head(&self) -> Vec<u8> {
        let mut lines = vec![format!("HTTP/1.1 {} X", self.status), "Connection: close".to_owned()];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if self.chunked {
            lines.push("Transfer-Encoding: chunked".to_owned());
        } else if !self.headers.iter().any(|(name, _)| name == "content-length") {
            lines.push(format!("Content-Length: {}", self.body.len()));
        }
        (lines.join("\r\n") + "\r\n\r\n").into_bytes()
    }

    fn cut_into(&self, lengths: &[usize]) -> Vec<&[u8]> {
        let mut rest = &self.body[..];
        let mut pieces = Vec::new();
        for length in lengths {
            let (piece, others) = rest.split_at((*length).min(rest.len()));
            pieces.push(piece);
            rest = others;
        }
        pieces.push(rest);
        pieces
    }
}
