//! Every shape of answer that servers send, each one whole, byte by byte, and cut at every offset.

use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_BOUNDARY_PADDING_BYTES, MAX_PART_HEADER_BYTES, MAX_PART_HEADER_LINES};

/// What came of one body.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    head: Option<PartHead>,
    file: Vec<u8>,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The closing boundary came.
    Ended,
    /// It did not, and the body's clean end will do.
    CleanEnd,
    /// It did not, and nothing will do.
    Truncated,
    Malformed,
}

use Outcome::{CleanEnd, Ended, Malformed, Truncated};

fn fed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut multipart = Multipart::new(&Boundary::in_content_type(b"multipart/mixed; boundary=b").unwrap());
    let mut read = Read { head: None, file: Vec::new(), outcome: Malformed };
    for piece in pieces {
        let mut chunk = Bytes::copy_from_slice(piece);
        loop {
            match multipart.read(&mut chunk) {
                Ok(None) => break assert!(chunk.is_empty()),
                Ok(Some(Event::Head(head))) => assert_eq!(read.head.replace(head), None),
                Ok(Some(Event::Data(data))) => {
                    assert!(!data.is_empty() && read.head.is_some() && read.outcome != Ended);
                    read.file.extend_from_slice(&data);
                }
                Ok(Some(Event::End)) => read.outcome = Ended,
                Err(MalformedMultipart) => {
                    assert!(multipart.read(&mut chunk).is_err() && multipart.finish_clean().is_err());
                    return read;
                }
            }
        }
    }
    if read.outcome != Ended {
        read.outcome = if multipart.finish_clean().is_ok() { CleanEnd } else { Truncated };
    }
    read
}

/// Reads `body` in every way it can be cut in two, and byte by byte.
fn read(body: &[u8]) -> Read {
    let whole = fed([body]);
    assert_eq!(fed(body.chunks(1)), whole, "byte by byte: {:?}", body.escape_ascii().to_string());
    if body.len() < 2000 {
        for at in 0..=body.len() {
            let (one, two) = body.split_at(at);
            assert_eq!(fed([one, two]), whole, "cut at {at}: {:?}", body.escape_ascii().to_string());
        }
    }
    whole
}

fn head(content_type: &str, disposition: &str) -> PartHead {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PartHead { content_type: some(content_type), content_disposition: some(disposition), location: None }
}

fn png(file: &[u8], outcome: Outcome) -> Read {
    Read { head: Some(head("image/png", "")), file: file.to_vec(), outcome }
}

const USUAL: &str = "--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\n";

fn usual(rest: &[u8]) -> Vec<u8> {
    [USUAL.as_bytes(), rest].concat()
}

#[test]
fn x08_x12_every_shape_of_envelope_holds_the_same_file() {
    for before in [
        USUAL,
        &format!("\r\n{USUAL}"),
        &format!("\n{USUAL}"),
        &format!("a preamble,\r\n--bx --b\r\n-- in lines\r\n{USUAL}"),
        "--b \t \r\nContent-Type: application/json\r\n\r\n{}\r\n--b\t\r\nContent-Type: image/png\r\n\r\n",
        // The first part: without headers, without body, without either, an array, no JSON at all.
        "--b\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\nContent-Type: application/json\r\n\r\n\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\nContent-Type: application/json\r\n\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\n\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\n\r\n[1, 2]\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        "--b\r\n\u{ff}\0 not even headers\r\n--b\r\nContent-Type: image/png\r\n\r\n",
        // Names in any case, blanks around values, other headers.
        "--b\r\n\r\n{}\r\n--b\r\ncONTENT-tYPE:image/png  \r\nX-Other: \u{ff}\r\n\r\n",
        "--b\r\n\r\n{}\r\n--b\r\nContent-Type:\r\n image/png\r\n\r\n",
    ] {
        let before: Vec<u8> = before.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        for line_feeds_alone in [false, true] {
            let before: Vec<u8> = before.iter().copied().filter(|byte| !(line_feeds_alone && *byte == b'\r')).collect();
            for after in ["\r\n--b--", "\r\n--b--\r\n", "\n--b--\n", "\r\n--b-- \r\nan epilogue\r\n--b\r\n--b\r\n"] {
                let body = [&before, b"\x89PNG\r\n\x1a\n".as_slice(), after.as_bytes()].concat();
                assert_eq!(read(&body), png(b"\x89PNG\r\n\x1a\n", Ended), "{:?}", body.escape_ascii().to_string());
            }
        }
    }
}

#[test]
fn a_file_may_hold_anything_but_a_whole_boundary_line() {
    for file in [
        b"".as_slice(),
        b"\r\n",
        b"\r",
        b"\n",
        b"ends with a line end\r\n",
        b"\r\n\r\n\r",
        b"--bx",
        b"text --b-- text",
        b"\r\n--bx\r\n--b x\r\n--b-x\r\n--b - -\r\n--b\rx\r\n--b \r\r\n-\r\n--\r\n--B\r\n--",
        b"\n--b\0",
        b"\r\r\n--bb",
        b"\r\n\r\n--",
    ] {
        let body = [&usual(b""), file, b"\r\n--b--"].concat();
        assert_eq!(read(&body), png(file, Ended), "{:?}", file.escape_ascii().to_string());
    }
}

#[test]
fn an_empty_file_needs_no_line_end_of_its_own() {
    assert_eq!(read(&usual(b"--b--")), png(b"", Ended));
    assert_eq!(read(&usual(b"--b")), png(b"", CleanEnd));
}

#[test]
fn r12_a_last_boundary_without_hyphens_will_do_where_the_body_ended_cleanly() {
    for end in ["\r\n--b", "\n--b", "\r\n--b \t", "\r\n--b\r\n", "\r\n--b\n", "\r\n--b  \r\n"] {
        assert_eq!(read(&usual(format!("file{end}").as_bytes())), png(b"file", CleanEnd), "{end:?}");
    }
}

#[test]
fn an_end_before_or_inside_the_boundary_is_none() {
    let (at_file, body) = (USUAL.len(), usual(b"file\r\n--b--"));
    for end in 0..body.len() {
        let read = read(body.get(..end).unwrap());
        let without_hyphens = end == body.len() - 2;
        assert_eq!(read.outcome, if without_hyphens { CleanEnd } else { Truncated }, "{end}");
        assert_eq!(read.head.is_some(), end >= at_file);
        assert!(b"file".starts_with(&read.file));
    }
    assert_eq!(read(&usual(b"file\r\n--b\r")).outcome, Truncated);
}

#[test]
fn x09_one_part_or_three_are_no_answer() {
    for (body, file) in [
        ("--b--", ""),
        ("--b\r\n\r\n{}\r\n--b--", ""),
        ("--b\r\n--b--\r\n", ""),
        (&format!("{USUAL}file\r\n--b\r\n\r\nthird\r\n--b--"), "file"),
        (&format!("{USUAL}file\r\n--b\r\n\r\n"), "file"),
        (&format!("{USUAL}file\r\n--b\r\n--b--"), "file"),
    ] {
        let read = read(body.as_bytes());
        assert_eq!((read.outcome, read.file.as_slice()), (Malformed, file.as_bytes()), "{body:?}");
    }
}

#[test]
fn x14_headers_of_the_file_are_kept_as_sent_or_not_at_all() {
    let with = |headers: &[u8]| read(&[b"--b\r\n\r\n{}\r\n--b\r\n", headers, b"\r\n\r\nx\r\n--b--"].concat());
    for (headers, expected) in [
        ("X: y".as_bytes(), head("", "")),
        (b"Content-Type:", head("", "")),
        (b"Content-Type: garbage", head("garbage", "")),
        (b"Content-Type: \xff\xfe\r\nContent-Disposition: inline", head("", "inline")),
        (b"Content-Type: a\x01b", head("", "")),
        (b"Content-Type: a/b\r\nContent-Type: c/d", head("", "")),
        (
            "Content-Disposition: inline; filename=\"\u{e9}.png\"".as_bytes(),
            head("", "inline; filename=\"\u{e9}.png\""),
        ),
        (b"Content-Disposition: inline; filename=\"\xe9.png\"", head("", "inline; filename=\"\u{e9}.png\"")),
        // A control in ISO-8859-1.
        (b"Content-Disposition: inline; filename=\"\xff\x80.png\"", head("", "")),
        (b"content-disposition: attachment;\r\n\tfilename=a", head("", "attachment; filename=a")),
    ] {
        let read = with(headers);
        assert_eq!((read.head, read.outcome), (Some(expected), Ended), "{:?}", headers.escape_ascii().to_string());
    }
    // No part without an empty line after its headers, no header without a name.
    for headers in [b"no colon".as_slice(), b": x", b" folded: x", b"Content Type: x", b"--b", b"\xff: x"] {
        assert_eq!(with(headers).outcome, Malformed, "{:?}", headers.escape_ascii().to_string());
    }
    let without = read(b"--b\r\n\r\n{}\r\n--b\r\n\r\nx\r\n--b--");
    assert_eq!(without, Read { head: Some(PartHead::default()), file: b"x".to_vec(), outcome: Ended });
}

#[test]
fn a_location_is_found_beside_bytes_too_and_never_overlooked() {
    for (headers, expected) in [
        ("Location: https://cdn.example/f", Some("https://cdn.example/f")),
        ("content-type: image/png\r\nLOCATION:https://cdn.example/f ", Some("https://cdn.example/f")),
        ("Location: https://cdn.example/\r\n f", Some("https://cdn.example/ f")),
        ("Location:", None),
        ("Location: \u{1}", None),
        ("Location: https://a.example/\r\nLocation: https://b.example/", None),
    ] {
        let read = read(format!("--b\r\n\r\n{{}}\r\n--b\r\n{headers}\r\n\r\nbytes\r\n--b--").as_bytes());
        assert_eq!(read.head.and_then(|head| head.location).as_deref(), expected, "{headers:?}");
        assert_eq!(read.outcome, if expected.is_some() { Ended } else { Malformed });
    }
}

#[test]
fn what_is_around_the_file_is_bounded_to_the_byte() {
    let metadata = |bytes: usize| fed_in_pieces(&[b"--b\r\n", &vec![b'{'; bytes], b"\r\n--b\r\n\r\nx\r\n--b--"]);
    let preamble = |bytes: usize| fed_in_pieces(&[&vec![b'-'; bytes], b"\r\n", &usual(b"x\r\n--b--")]);
    let header_bytes = |bytes: usize| {
        let value = vec![b'v'; bytes - "X: \r\n\r\n".len()];
        fed_in_pieces(&[b"--b\r\n\r\n\r\n--b\r\nX: ", &value, b"\r\n\r\nx\r\n--b--"])
    };
    let header_lines =
        |lines: usize| fed_in_pieces(&[b"--b\r\n\r\n\r\n--b\r\n", &b"X: y\r\n".repeat(lines), b"\r\nx\r\n--b--"]);
    let padding = |bytes: usize| fed_in_pieces(&[&usual(b"x\r\n--b"), &vec![b' '; bytes], b"\r\n"]);
    let bounds: [(usize, &dyn Fn(usize) -> Outcome); 4] = [
        (MAX_MEDIA_METADATA_BYTES, &metadata),
        (MAX_MULTIPART_PREAMBLE_BYTES, &preamble),
        (MAX_PART_HEADER_BYTES, &header_bytes),
        (MAX_PART_HEADER_LINES, &header_lines),
    ];
    for (most, read) in bounds {
        assert_eq!((read(most), read(most + 1)), (Ended, Malformed), "{most}");
    }
    assert_eq!(padding(MAX_BOUNDARY_PADDING_BYTES), CleanEnd);
    assert_eq!(padding(MAX_BOUNDARY_PADDING_BYTES + 1), Truncated, "it was text");
}

fn fed_in_pieces(pieces: &[&[u8]]) -> Outcome {
    let body = pieces.concat();
    let whole = fed([body.as_slice()]);
    assert_eq!(fed(body.chunks(7)), whole);
    assert_eq!(fed(pieces.iter().copied()), whole);
    whole.outcome
}

#[test]
fn the_file_is_not_copied_and_little_of_it_is_held_back() {
    let mut multipart = Multipart::new(&Boundary::in_content_type(b"multipart/mixed; boundary=b").unwrap());
    let mut chunk = Bytes::from(usual(&[b'x'; 5000]));
    let within = chunk.as_ptr_range();
    assert!(matches!(multipart.read(&mut chunk), Ok(Some(Event::Head(_)))));
    let Ok(Some(Event::Data(data))) = multipart.read(&mut chunk) else { panic!("there is data") };
    assert_eq!(data.len(), 5000);
    assert!(within.contains(&data.as_ptr()), "a slice of the chunk");
    let Ok(None) = multipart.read(&mut Bytes::from_static(b"\r\n--b \t\r")) else { panic!("undecided") };
    let Ok(Some(Event::Data(data))) = multipart.read(&mut Bytes::from_static(b"y")) else { panic!("text after all") };
    assert_eq!(data, "\r\n--b \t\r");
}

/// Counted in slices handed out, not in seconds: each of them is one more search from where the last one ended.
#[test]
fn a_file_full_of_near_boundaries_takes_linear_time() {
    let near = [b"\r\n--b".as_slice(), &[b' '; MAX_BOUNDARY_PADDING_BYTES], b"\rx\r\n--b-\n--\r"].concat();
    let file = near.repeat(8000);
    let mut multipart = Multipart::new(&Boundary::in_content_type(b"multipart/mixed; boundary=b").unwrap());
    let mut chunk = Bytes::from(usual(&file));
    let mut slices = Vec::new();
    while let Some(event) = multipart.read(&mut chunk).unwrap() {
        if let Event::Data(data) = event {
            slices.push(data.len());
        }
    }
    assert_eq!(slices, [file.len() - 1], "one search for all of them; the last byte may begin a boundary");
}

/// Tokens that readers of such bodies have stumbled over.
fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "--b",
        "--",
        "\r\n",
        "\n",
        "\r",
        " ",
        "{}",
        "x",
        "Location: https://a.example/",
        "-",
        "--bx",
        ":",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn p18_a_soup_of_tokens_is_read_the_same_however_it_is_cut(tokens in prop::collection::vec(token(), 0..40)) {
        let body = tokens.concat();
        let read = read(body.as_bytes());
        prop_assert!(read.file.len() <= body.len());
        let file_of_tokens = tests::read(format!("{USUAL}{body}").as_bytes());
        prop_assert_eq!(file_of_tokens.head, Some(head("image/png", "")));
    }

    #[test]
    fn any_file_arrives_as_it_is_in_any_pieces(
        file in prop::collection::vec(prop::sample::select(b"\r\n-bx \t\0".to_vec()), 0..400),
        cuts in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let mut body = usual(&file);
        body.extend_from_slice(b"\r\n--b--");
        let mut rest = body.as_slice();
        let pieces: Vec<&[u8]> = cuts.iter().cycle().map_while(|cut| {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        }).collect();
        let read = fed(pieces);
        // By chance there may be a boundary in it.
        if read.outcome == Ended && read.file.len() == file.len() {
            prop_assert_eq!(&read.file, &file);
        } else {
            let text = file.escape_ascii().to_string();
            prop_assert!(text.contains("--b"), "{}", text);
        }
        prop_assert_eq!(read, fed([body.as_slice()]));
    }
}
