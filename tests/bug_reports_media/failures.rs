//! What the other server says is told in the words of the specification, and never in its own.

use crate::loopback::media::{download, thumbnail};
use crate::loopback::{World, client};
use crate::support::{Behaviour, SeenRequest, json_answer};

const FILE: &[u8] = b"legacy bytes";

fn answer(status: u16, errcode: &str) -> Vec<u8> {
    json_answer(status, &format!(r#"{{"errcode":"{errcode}","error":"the other server's words"}}"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_54_every_answer_of_the_other_server_has_its_own_meaning() {
    let world = World::new().await;
    for (said, told) in [
        (answer(404, "M_NOT_FOUND"), (404, "M_NOT_FOUND")),
        (answer(401, "M_UNAUTHORIZED"), (502, "M_UNKNOWN")),
        (answer(403, "M_FORBIDDEN"), (502, "M_UNKNOWN")),
        (answer(429, "M_LIMIT_EXCEEDED"), (502, "M_UNKNOWN")),
        (answer(500, "M_UNKNOWN"), (502, "M_UNKNOWN")),
        (answer(502, "M_UNKNOWN"), (502, "M_UNKNOWN")),
        (answer(502, "M_TOO_LARGE"), (502, "M_TOO_LARGE")),
        (answer(504, "M_UNKNOWN"), (502, "M_UNKNOWN")),
        (answer(504, "M_NOT_YET_UPLOADED"), (504, "M_NOT_YET_UPLOADED")),
        (b"HTTP/1.1 404 X\r\nContent-Length: 18\r\n\r\n404 page not found".to_vec(), (404, "M_NOT_FOUND")),
    ] {
        let words = String::from_utf8_lossy(&said).into_owned();
        let (peer, server) = world.peer("r.example", Behaviour::answers(move |_| said.clone())).await;
        let home = world.media(None);
        for path in [download(&server, "a"), thumbnail(&server, "a")] {
            let answer = home.ask(client(1), &path).await;
            assert_eq!(answer.error(), (told.0, told.1.to_owned()), "{words}");
            assert!(!String::from_utf8_lossy(&answer.bytes).contains("other server's words"), "{words}");
        }
        peer.all_closed().await;
        home.at_rest().await;
    }
}

/// A server that answers federation with `federation`, and its legacy path with the file.
fn old_server(federation: Vec<u8>) -> Behaviour {
    let legacy = [
        format!("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n", FILE.len()).as_bytes(),
        FILE,
    ]
    .concat();
    Behaviour::answers(move |request: &SeenRequest| {
        if request.target().starts_with("/_matrix/media/") { legacy.clone() } else { federation.clone() }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br_56_only_a_server_that_does_not_know_the_endpoint_is_asked_the_old_way() {
    let world = World::new().await;
    for (federation, falls_back) in [
        (answer(404, "M_UNRECOGNIZED"), true),
        (answer(404, "M_NOT_FOUND"), false),
        (answer(405, "M_UNRECOGNIZED"), false),
        (answer(400, "M_UNRECOGNIZED"), false),
        (b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n".to_vec(), false),
        (b"HTTP/1.1 404 X\r\nContent-Length: 18\r\n\r\n404 page not found".to_vec(), false),
        (answer(401, "M_UNRECOGNIZED"), false),
        (answer(500, "M_UNRECOGNIZED"), false),
    ] {
        let words = String::from_utf8_lossy(&federation).into_owned();
        let (peer, server) = world.peer("r.example", old_server(federation)).await;
        let home = world.media(None);
        let answer = home.ask(client(1), &download(&server, "abc")).await;
        let requests = peer.requests();
        if falls_back {
            answer.assert_file(FILE);
            assert_eq!(requests.len(), 2);
            let legacy = requests[1].target();
            assert!(
                legacy.starts_with(&format!("/_matrix/media/v3/download/{}/abc?", server.replace(':', "%3A"))),
                "{legacy}"
            );
            assert!(legacy.contains("allow_remote=false"), "{legacy}");
            assert_eq!(requests[1].values("authorization"), [""; 0], "it was signed");
        } else {
            assert!(answer.error().0 >= 400, "{words}");
            assert_eq!(requests.len(), 1, "{words}");
        }
        home.at_rest().await;
    }
}
