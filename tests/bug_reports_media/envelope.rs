//! How a file is wrapped, and how its bytes come, changes nothing about it.

use std::sync::Arc;
use std::time::Duration;

use crate::loopback::media::download;
use crate::loopback::{World, client};
use crate::support::media::{answer_head, chunked, multipart_head};
use crate::support::{Behaviour, SeenRequest, SentFile};

const FILE: &[u8] = b"\x89PNG\r\n--0123456789abcde\r\n not the end \0\r\n";

fn media_id(request: &SeenRequest) -> usize {
    let path = request.target().split('?').next().unwrap();
    path.rsplit('/').next().unwrap().trim_start_matches('f').parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_26_a_location_cut_at_any_byte_leads_to_the_same_file() {
    let world = World::new().await;
    let file = SentFile { headers: &["Content-Type: image/png"], bytes: FILE };
    let bare = [
        format!("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n", file.bytes.len())
            .into_bytes(),
        FILE.to_vec(),
    ]
    .concat();
    let (cdn, cdn_name) = world.peer("cdn.example", Behaviour::answers(move |_| bare.clone())).await;
    let location = format!("Location: https://{cdn_name}/files/a?b=c");
    let whole = SentFile { headers: &[&location], bytes: b"" }.answer();
    let cuts = whole.len();
    let pieces = Arc::new(move |request: &SeenRequest| {
        let (before, after) = whole.split_at(media_id(request));
        vec![before.to_vec(), after.to_vec()]
    });
    let (peer, server) = world.peer("r.example", Behaviour::Pieces { pieces, pause: Duration::from_micros(200) }).await;
    let home = world.media(None);
    for cut in 0..cuts {
        let answer = home.ask(client(1), &download(&server, &format!("f{cut}"))).await;
        assert!(answer.status == 200 && answer.bytes == FILE, "cut at {cut}: {} {:?}", answer.status, answer.bytes);
        assert_eq!(answer.headers["content-type"], "image/png");
    }
    assert_eq!((peer.requests().len(), cdn.requests().len()), (cuts, cuts));
    assert!(cdn.requests().iter().all(|request| request.values("authorization").is_empty()), "it was signed");
    assert!(cdn.requests().iter().all(|request| request.target() == "/files/a?b=c"));
    home.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_28_more_announced_than_sent_is_a_whole_file_only_with_its_end() {
    let envelope = SentFile::png(FILE).envelope();
    let longer = answer_head(envelope.len() + 50);
    let before_the_end = envelope[..envelope.len() - 10].to_vec();
    // After the final delimiter nothing more is read: the file is whole, whatever was announced.
    for (sent, whole) in [(envelope, true), (before_the_end, false)] {
        let world = World::new().await;
        let (_peer, server) = world.peer("r.example", Behaviour::EndsAfter([longer.clone(), sent].concat())).await;
        let home = world.media(None);
        let answer = home.ask(client(1), &download(&server, "a")).await;
        if whole {
            answer.assert_file(FILE);
        } else if answer.status == 200 {
            assert!(!answer.whole, "a file that was cut ended cleanly");
        } else {
            assert_eq!(answer.error(), (502, "M_UNKNOWN".to_owned()));
        }
        assert!(answer.took < Duration::from_secs(10), "it waited for the deadline");
        home.at_rest().await;
        assert_eq!(home.portcullis.status().media.store.unwrap().files, u64::from(whole), "what is kept");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_30_a_length_that_is_not_told_is_nothing_special() {
    let envelope = SentFile::png(FILE).envelope();
    let empty = SentFile::png(b"").envelope();
    let world = World::new().await;
    for (sent, file) in [
        ([multipart_head("Transfer-Encoding: chunked"), chunked(&envelope, 7)].concat(), FILE),
        ([multipart_head("Transfer-Encoding: chunked"), chunked(&envelope, 1)].concat(), FILE),
        ([multipart_head("Connection: close"), envelope.clone()].concat(), FILE),
        ([answer_head(envelope.len()), envelope.clone()].concat(), FILE),
        ([answer_head(empty.len()), empty.clone()].concat(), b""),
    ] {
        let (_peer, server) = world.peer("r.example", Behaviour::EndsAfter(sent)).await;
        let home = world.media(None);
        for _cold_and_stored in 0..2 {
            home.ask(client(1), &download(&server, "a")).await.assert_file(file);
        }
        home.at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_40_a_file_without_a_type_is_bytes_to_be_saved() {
    let world = World::new().await;
    for headers in [&[][..], &["Content-Type:"], &["Content-Type: garbage"], &["Content-Type: a/b/c"]] {
        let answer = SentFile { headers, bytes: FILE }.answer();
        let (_peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
        let answer = world.media(None).ask(client(1), &download(&server, "a")).await;
        answer.assert_file(FILE);
        assert_eq!(answer.headers["content-type"], "application/octet-stream", "{headers:?}");
        assert!(answer.headers["content-disposition"].to_str().unwrap().starts_with("attachment"), "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_42_an_envelope_that_cannot_be_read_is_a_502_at_once() {
    let world = World::new().await;
    let envelope = SentFile::png(FILE).envelope();
    for content_type in
        ["multipart/mixed", "multipart/form-data; boundary=0123456789abcdef", "image/png", "multipart/mixed; boundary="]
    {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", envelope.len());
        let answer = [head.as_bytes(), &envelope].concat();
        let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await;
        let home = world.media(None);
        let answer = home.ask(client(1), &download(&server, "a")).await;
        assert_eq!(answer.error(), (502, "M_UNKNOWN".to_owned()), "{content_type}");
        assert!(answer.took < Duration::from_secs(10), "it waited for the deadline");
        peer.all_closed().await;
        home.at_rest().await;
    }
}
