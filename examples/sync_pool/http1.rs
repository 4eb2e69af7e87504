//! As much of HTTP/1.1 as a blocking server needs: one request for each connection, read whole and within bounds.

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use portcullis::ResponseBody;

const MAX_LINE_BYTES: u64 = 8 * 1024;
const MAX_HEADERS: usize = 64;
const MAX_BODY_BYTES: u64 = 64 * 1024;
/// How long a client may take between two reads or writes.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// Reads one request, body included.
pub(crate) fn read_request(connection: &TcpStream) -> io::Result<Request<Bytes>> {
    connection.set_read_timeout(Some(CLIENT_PATIENCE))?;
    connection.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut reader = BufReader::new(connection);
    let mut line = || {
        let mut line = String::new();
        reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)?;
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(malformed)
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed());
    };
    let mut request = Request::builder().method(method).uri(target);
    for _ in 0..MAX_HEADERS {
        let header = line()?;
        if header.is_empty() {
            let mut request = request.body(Bytes::new()).map_err(io::Error::other)?;
            // Two ways to say where a body ends, or a way we cannot read, and somebody in front of us may read another one.
            if request.headers().contains_key(TRANSFER_ENCODING)
                || request.headers().get_all(CONTENT_LENGTH).iter().count() > 1
            {
                return Err(malformed());
            }
            if let Some(length) = request.headers().get(CONTENT_LENGTH) {
                let length = length.to_str().ok().and_then(|length| length.parse::<u64>().ok());
                let length = length.filter(|length| *length <= MAX_BODY_BYTES).ok_or_else(malformed)?;
                let mut body = Vec::new();
                reader.by_ref().take(length).read_to_end(&mut body)?;
                if u64::try_from(body.len()) != Ok(length) {
                    return Err(malformed());
                }
                *request.body_mut() = body.into();
            }
            return Ok(request);
        }
        let (name, value) = header.split_once(':').ok_or_else(malformed)?;
        request = request.header(
            name.parse::<HeaderName>().map_err(io::Error::other)?,
            HeaderValue::from_str(value.trim()).map_err(io::Error::other)?,
        );
    }
    Err(malformed())
}

/// Writes an answer, bytes or a file that is still on its way.
///
/// *Blocking:* as long as the client, and a file's server, take. A body that is cut short ends without its last chunk or
/// byte, so that nobody takes it for the whole.
pub(crate) fn write_answer(
    mut connection: &TcpStream,
    method: &Method,
    answer: Response<ResponseBody>,
) -> io::Result<()> {
    let (mut head, body) = answer.into_parts();
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let length = body.size_hint().exact();
    match length {
        Some(length) => head.headers.insert(CONTENT_LENGTH, length.into()),
        None => head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
    };
    write!(connection, "HTTP/1.1 {}\r\n", head.status)?;
    for (name, value) in &head.headers {
        connection.write_all(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat())?;
    }
    connection.write_all(b"\r\n")?;
    if *method == Method::HEAD {
        return Ok(());
    }
    let mut body = body.into_reader();
    if length.is_some() {
        io::copy(&mut body, &mut connection)?;
        return Ok(());
    }
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let read = body.read(&mut chunk)?;
        write!(connection, "{read:x}\r\n")?;
        connection.write_all(chunk.get(..read).unwrap_or_default())?;
        connection.write_all(b"\r\n")?;
        if read == 0 {
            return Ok(());
        }
    }
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
