//! Every metric of `/metrics`: its name, its kind, its help and every value its labels may have.
//!
//! Never: a label's value is a client's or a peer's choice (`every_series_is_one_of_those_listed`). So the number of series is
//! known here, and no stranger can make it grow. A gate's homeserver, a server that was asked and a client are in
//! `/v1/status` and on the page alone.

/// One metric, which may have several series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name; a histogram's series have `_bucket`, `_sum` or `_count` behind it.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: MetricKind,
    /// What it says, in one line.
    pub help: &'static str,
    /// What tells its series apart.
    pub labels: &'static [Label],
}

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only goes up; begins anew with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Calls by how long they took.
    Histogram,
}

/// A label with every value it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}

impl MetricKind {
    /// The word of the text format.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const fn label(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values }
}

const fn metric(name: &'static str, kind: MetricKind, help: &'static str, labels: &'static [Label]) -> Metric {
    Metric { name, kind, help, labels }
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [Label]) -> Metric {
    metric(name, MetricKind::Gauge, help, labels)
}

const fn counter(name: &'static str, help: &'static str, labels: &'static [Label]) -> Metric {
    metric(name, MetricKind::Counter, help, labels)
}

/// Lookups of room lists and aliases, and files.
pub const CLASS: Label = label("class", &["directory", "media"]);
/// All slots taken; the client has its share; remote media is off, or the client did not allow it.
pub const REASON: Label = label("reason", &["global", "client", "rate", "remote_fetch_off"]);
/// How a call ended.
pub const OUTCOME: Label = label("outcome", &["answered", "timed_out", "failed"]);
/// What a fetch is doing.
pub const FETCH_STATE: Label = label("state", &["running", "waiting"]);
/// Why a stored file was deleted: room was needed, its time was over, it was not whole.
pub const DELETED: Label = label("reason", &["evicted", "expired", "torn"]);
/// A gate's breaker.
pub const BREAKER: Label = label("state", &["closed", "open", "probing"]);
/// Who waits at a gate.
pub const CALLER: Label = label("kind", &["background", "brief", "long_poll"]);
/// What a gate admitted.
pub const ADMITTED: Label = label("kind", &["call", "long_poll"]);
/// What a gate's breaker did.
pub const TRANSITION: Label = label("to", &["open", "open_again", "probing", "closed"]);
/// What said that a gate's homeserver has too much to do.
pub const LOAD: Label = label("signal", &["timed_out", "overloaded"]);
/// What the homeserver behind is asked: whose a token is, for a list or an alias, or for a file.
pub const ASKED: Label = label("kind", &["token_question", "small", "file"]);
/// The same, and who waits for the answer to somebody's equal question about a token.
pub const ASKED_OR_WAITING: Label = label("kind", &["token_question", "token_waiter", "small", "file"]);
/// The version of the program.
pub const VERSION: Label = label("version", &[env!("CARGO_PKG_VERSION")]);

/// Always 1.
pub const BUILD_INFO: Metric = gauge("portcullis_build_info", "Always 1; the version is the label.", &[VERSION]);
/// 1 from the first signal on.
pub const DRAINING: Metric = gauge("portcullis_draining", "Whether the server is stopping: 1, or else 0.", &[]);

/// Slots held.
pub const IN_FLIGHT: Metric =
    gauge("portcullis_in_flight", "Slots held by requests that ask another server.", &[CLASS]);
/// Slots in all.
pub const IN_FLIGHT_CAP: Metric = gauge("portcullis_in_flight_cap", "Slots in all.", &[CLASS]);
/// Requests refused.
pub const REFUSED: Metric = counter(
    "portcullis_refused_total",
    "Requests refused before anything was looked up: every slot was taken (global), the client had its share (client) \
     or was over its rate (rate), or remote media is off or not wanted (remote_fetch_off).",
    &[CLASS, REASON],
);
/// Calls that ended.
pub const CALLS: Metric =
    counter("portcullis_calls_total", "Calls to other servers that ended, shared ones once.", &[CLASS, OUTCOME]);
/// How long they took.
pub const CALL_SECONDS: Metric = metric(
    "portcullis_call_seconds",
    MetricKind::Histogram,
    "How long calls to other servers took, discovery included.",
    &[CLASS],
);
/// Calls past their deadline.
pub const WORKER_OVERRUNS: Metric = counter(
    "portcullis_worker_overruns_total",
    "Calls that still ran after their deadline and two seconds; stays 0.",
    &[],
);

/// The request pool.
pub const REQUEST_THREADS: Metric = gauge("portcullis_request_threads", "Threads of the request pool.", &[]);
/// Those without work.
pub const REQUEST_THREADS_IDLE: Metric =
    gauge("portcullis_request_threads_idle", "Threads of the request pool that wait for a request.", &[]);
/// Faults of ours.
pub const HANDLER_PANICS: Metric =
    counter("portcullis_handler_panics_total", "Requests answered 500 because a handler panicked; stays 0.", &[]);

/// Answers that may take long.
pub const LONG_ANSWERS: Metric = gauge(
    "portcullis_long_answers",
    "Answers on their way that may take long: files, and what the homeserver behind is asked.",
    &[],
);
/// How many there may be.
pub const LONG_ANSWERS_CAP: Metric =
    gauge("portcullis_long_answers_cap", "Most at once; other connections are left to lookups.", &[]);
/// What was over that.
pub const LONG_ANSWERS_REFUSED: Metric = counter(
    "portcullis_long_answers_refused_total",
    "Requests answered 503 because too many answers that may take long were on their way.",
    &[],
);

/// What is out to the homeserver behind.
pub const UPSTREAM_IN_FLIGHT: Metric = gauge(
    "portcullis_upstream_in_flight",
    "Questions about access tokens, requests that wait for the answer to an equal one, and requests passed on, that are \
     out to homeserver.upstream.",
    &[ASKED_OR_WAITING],
);
/// How many there may be.
pub const UPSTREAM_IN_FLIGHT_CAP: Metric =
    gauge("portcullis_upstream_in_flight_cap", "Most that may be out to homeserver.upstream.", &[ASKED_OR_WAITING]);
/// What it answered.
pub const UPSTREAM_ANSWERED: Metric =
    counter("portcullis_upstream_answered_total", "Answers of homeserver.upstream.", &[ASKED]);
/// What was over a cap.
pub const UPSTREAM_REFUSED: Metric = counter(
    "portcullis_upstream_refused_total",
    "Requests answered 503 because too many were out to homeserver.upstream.",
    &[ASKED_OR_WAITING],
);
/// What it did not answer.
pub const UPSTREAM_SILENT: Metric = counter(
    "portcullis_upstream_silent_total",
    "Requests answered 502 because homeserver.upstream did not answer.",
    &[ASKED],
);

/// Fetches of files.
pub const MEDIA_FETCHES: Metric =
    gauge("portcullis_media_fetches", "Fetches of files that run, or wait for their turn.", &[FETCH_STATE]);
/// Finished files.
pub const MEDIA_STORE_FILES: Metric = gauge("portcullis_media_store_files", "Finished files in the media store.", &[]);
/// Their bytes, the room of unfinished ones, and what deleted ones take that are still read.
pub const MEDIA_STORE_BYTES: Metric = gauge(
    "portcullis_media_store_bytes",
    "Bytes taken by the media store, unfinished files and deleted ones still read included.",
    &[],
);
/// The most there may be.
pub const MEDIA_STORE_MAX_BYTES: Metric =
    gauge("portcullis_media_store_max_bytes", "Most bytes the media store may take (media.cache_size).", &[]);
/// Files deleted.
pub const MEDIA_STORE_DELETED: Metric =
    counter("portcullis_media_store_deleted_total", "Files deleted from the media store.", &[DELETED]);
/// Files whose readers had to go.
pub const MEDIA_STORE_CUT: Metric =
    counter("portcullis_media_store_cut_total", "Files whose readers were cut to make room in the media store.", &[]);

/// Gates.
pub const GATE_BREAKERS: Metric =
    gauge("portcullis_gate_breakers", "Load gates by the state of their breaker.", &[BREAKER]);
/// Their limits.
pub const GATE_LIMIT: Metric =
    gauge("portcullis_gate_limit", "Limits of all load gates together; one that is not closed adds 0.", &[]);
/// Calls out.
pub const GATE_ACTIVE: Metric = gauge("portcullis_gate_active", "Calls out that take a slot, at all load gates.", &[]);
/// Slots held for calls that timed out.
pub const GATE_HELD: Metric =
    gauge("portcullis_gate_held", "Slots kept for calls that timed out, at all load gates.", &[]);
/// Who waits.
pub const GATE_WAITING: Metric = gauge("portcullis_gate_waiting", "Callers that wait, at all load gates.", &[CALLER]);
/// How long the first of them has waited.
pub const GATE_OLDEST_WAIT: Metric =
    gauge("portcullis_gate_oldest_wait_seconds", "How long the caller has waited that has waited longest.", &[]);
/// Calls admitted.
pub const GATE_ADMITTED: Metric =
    counter("portcullis_gate_admitted_total", "Calls and long-polls admitted, probes among them.", &[ADMITTED]);
/// Waiters that left.
pub const GATE_GAVE_UP: Metric =
    counter("portcullis_gate_gave_up_total", "Callers that left without having gone.", &[]);
/// Calls users waited for.
pub const GATE_INTERACTIVE: Metric =
    counter("portcullis_gate_interactive_total", "Calls that users waited for and that reported to a gate.", &[]);
/// Outcomes that moved something.
pub const GATE_COUNTED: Metric =
    counter("portcullis_gate_counted_total", "Outcomes that moved a limit, a count of successes or a breaker.", &[]);
/// Signs of load.
pub const GATE_LOAD: Metric = counter(
    "portcullis_gate_load_total",
    "Outcomes that tell of load: calls that timed out, and 5xx, 429 and broken connections (overloaded).",
    &[LOAD],
);
/// Calls given up.
pub const GATE_DROPPED: Metric = counter("portcullis_gate_dropped_total", "Calls given up without a word.", &[]);
/// Slots held so far.
pub const GATE_HOLDS: Metric =
    counter("portcullis_gate_holds_total", "Slots that were kept for a call that timed out.", &[]);
/// What the breakers did.
pub const GATE_TRANSITIONS: Metric = counter(
    "portcullis_gate_breaker_total",
    "Changes of breakers: opened, opened again by a probe that failed, probing, closed.",
    &[TRANSITION],
);

/// When the process began.
pub const PROCESS_START: Metric =
    gauge("process_start_time_seconds", "When the server was started, in seconds since 1970.", &[]);
/// Memory.
pub const PROCESS_MEMORY: Metric = gauge("process_resident_memory_bytes", "Memory the process has in use.", &[]);
/// Descriptors.
pub const PROCESS_OPEN_FDS: Metric = gauge("process_open_fds", "Open files and sockets.", &[]);
/// How many there may be.
pub const PROCESS_MAX_FDS: Metric = gauge("process_max_fds", "Most files and sockets that may be open.", &[]);
/// Threads.
pub const PROCESS_THREADS: Metric = gauge("process_threads", "Threads of the process.", &[]);

/// All of them, in the order of `/metrics`.
pub const ALL: &[Metric] = &[
    BUILD_INFO,
    DRAINING,
    IN_FLIGHT,
    IN_FLIGHT_CAP,
    REFUSED,
    CALLS,
    CALL_SECONDS,
    WORKER_OVERRUNS,
    REQUEST_THREADS,
    REQUEST_THREADS_IDLE,
    HANDLER_PANICS,
    LONG_ANSWERS,
    LONG_ANSWERS_CAP,
    LONG_ANSWERS_REFUSED,
    UPSTREAM_IN_FLIGHT,
    UPSTREAM_IN_FLIGHT_CAP,
    UPSTREAM_ANSWERED,
    UPSTREAM_REFUSED,
    UPSTREAM_SILENT,
    MEDIA_FETCHES,
    MEDIA_STORE_FILES,
    MEDIA_STORE_BYTES,
    MEDIA_STORE_MAX_BYTES,
    MEDIA_STORE_DELETED,
    MEDIA_STORE_CUT,
    GATE_BREAKERS,
    GATE_LIMIT,
    GATE_ACTIVE,
    GATE_HELD,
    GATE_WAITING,
    GATE_OLDEST_WAIT,
    GATE_ADMITTED,
    GATE_GAVE_UP,
    GATE_INTERACTIVE,
    GATE_COUNTED,
    GATE_LOAD,
    GATE_DROPPED,
    GATE_HOLDS,
    GATE_TRANSITIONS,
    PROCESS_START,
    PROCESS_MEMORY,
    PROCESS_OPEN_FDS,
    PROCESS_MAX_FDS,
    PROCESS_THREADS,
];
