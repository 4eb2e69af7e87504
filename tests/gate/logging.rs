//! One warning when the breaker opens, one line when it closes, and the words they carry.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use portcullis::gate::GateRegistry;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, key};
use crate::threads_log::let_each_thread_decide;

/// Keeps the gate's lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, "{}={value} ", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "portcullis::gate"
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().push((*event.metadata().level(), words.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Lines {
    /// Keeps what this thread logs from here on.
    fn of_this_thread() -> (Self, DefaultGuard) {
        let_each_thread_decide();
        let lines = Self::default();
        (lines.clone(), tracing::subscriber::set_default(lines))
    }

    fn at(&self, level: Level) -> Vec<String> {
        self.0.lock().iter().filter(|(found, _)| *found == level).map(|(_, words)| words.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn one_outage_is_one_warning_and_one_line_at_its_end_however_many_probes_fail() {
    let (lines, _logging) = Lines::of_this_thread();
    let rig = Rig::starting_at(1);
    rig.admitted().await.finish(TIMED_OUT);
    for _ in 0..5 {
        rig.at_ms(rig.look().next_probe.unwrap()).await;
        rig.admitted().await.finish(FAILED);
    }
    let warnings = lines.at(Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("homeserver=https://matrix.example.org:443 "), "{}", warnings[0]);
    assert!(warnings[0].contains("outcome=timed-out "), "{}", warnings[0]);
    assert_eq!((lines.at(Level::INFO).len(), lines.at(Level::DEBUG).len()), (0, 5));

    rig.at_ms(rig.look().next_probe.unwrap()).await;
    rig.admitted().await.finish(FAST);
    assert_eq!(lines.at(Level::INFO).len(), 1);
    assert!(lines.at(Level::INFO)[0].contains("homeserver=https://matrix.example.org:443 "));

    rig.admitted().await.finish(FAILED);
    assert_eq!(lines.at(Level::WARN).len(), 2, "the next outage has its own");
    assert!(lines.at(Level::WARN)[1].contains("outcome=server-error "));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_no_gate_hears_is_a_line_at_trace() {
    let (lines, _logging) = Lines::of_this_thread();
    let registry = GateRegistry::new(1);
    registry.interactive(&key()).report(FAILED);
    assert_eq!(lines.at(Level::TRACE).len(), 1);
    assert!(lines.at(Level::TRACE)[0].contains("outcome=server-error "));
    registry.gate(&key()).unwrap().interactive().report(FAILED);
    assert_eq!(lines.0.lock().len(), 1, "and one that is heard is none");
}
