//! What an operator reads about fetches: one count each, and at level debug one line for each that failed.

use super::*;
use crate::proxy::watch::lines::Lines;

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_one_line_that_says_which_server_which_step_and_why() {
    for (does, phase, reason, status, counted) in [
        (Does::SayAfter(Duration::ZERO, MediaCallError::NotFound), "answer", "not-found", None, (1, 0, 0)),
        (
            Does::SayAfter(Duration::ZERO, MediaCallError::Status(418)),
            "answer",
            "unexpected-status",
            Some(418),
            (0, 0, 1),
        ),
        (Does::SayAfter(Duration::ZERO, BROKEN), "connect", "connect-failed", None, (0, 0, 1)),
        (Does::Drip(vec![Piece::Stall], None), "call", "deadline", None, (0, 1, 0)),
        (Does::Panic, "call", "cut-short", None, (0, 0, 1)),
    ] {
        let (lines, _logging) = Lines::of_this_thread(tracing::Level::DEBUG);
        let rig = Rig::new(FakeOrigin::new(move |_| does.clone()));
        let portcullis = rig.portcullis();
        let _ = fetch(&portcullis, 1, &file("THEM.example", "abc")).await;
        at_rest(&portcullis).await;
        let told: Vec<_> =
            lines.read().into_iter().filter(|line| line["fields"]["message"] == "media fetch failed").collect();
        assert_eq!(told.len(), 1, "{reason}: {told:?}");
        let fields = &told[0]["fields"];
        assert_eq!((&fields["server"], &fields["route"]), (&"them.example".into(), &"media-download".into()));
        assert_eq!((&fields["phase"], &fields["reason"]), (&phase.into(), &reason.into()));
        assert_eq!((&fields["status"], &told[0]["level"]), (&status.into(), &"DEBUG".into()));
        let counts = portcullis.status().calls.media;
        assert_eq!((counts.answered, counts.timed_out, counts.failed), counted, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_writes_no_line_above_debug() {
    let (lines, _logging) = Lines::of_this_thread(tracing::Level::INFO);
    let rig = Rig::new(FakeOrigin::new(|_| Does::SayAfter(Duration::ZERO, BROKEN)));
    let portcullis = rig.portcullis();
    for path in paths("them.example").iter().map(String::as_str).chain(["/_matrix/media/v3/download/127.1/a"]) {
        let _ = fetch(&portcullis, 1, &request(path)).await;
    }
    at_rest(&portcullis).await;
    assert_eq!(lines.read(), Vec::<Value>::new());
}
