//! The text of `/metrics`, from one snapshot. Gates are summed: a metric says that something is wrong, the status says where.

use super::exposition::{Exposition, Number};
use super::metric_names as names;
use super::report::AdminStatus;
use crate::gate::{BreakerState, GateStatus};
use crate::status::Status;

/// Every metric there is a figure for.
pub(super) fn text(seen: &AdminStatus) -> String {
    let mut text = Exposition::default();
    about(seen, &mut text);
    budgets(&seen.status, &mut text);
    calls(&seen.status, &mut text);
    pool(seen, &mut text);
    long_answers(seen, &mut text);
    upstream(seen, &mut text);
    media(&seen.status, &mut text);
    gates(&seen.status.homeservers, &mut text);
    gate_counts(&seen.status, &mut text);
    process(seen, &mut text);
    text.into_text()
}

fn about(seen: &AdminStatus, text: &mut Exposition) {
    text.family(&names::BUILD_INFO).sample(names::VERSION.values, 1_u64);
    text.single(&names::DRAINING, u64::from(seen.draining));
}

fn budgets(status: &Status, text: &mut Exposition) {
    let budgets = || names::CLASS.values.iter().copied().zip([&status.budgets.directory, &status.budgets.media]);
    let mut in_flight = text.family(&names::IN_FLIGHT);
    for (class, budget) in budgets() {
        in_flight.sample(&[class], budget.in_flight);
    }
    let mut cap = text.family(&names::IN_FLIGHT_CAP);
    for (class, budget) in budgets() {
        cap.sample(&[class], budget.cap);
    }
    let mut refused = text.family(&names::REFUSED);
    // Lookups have no switch.
    let by_switch = [0, status.media.refused_by_switch];
    for ((class, budget), by_switch) in budgets().zip(by_switch) {
        let counts = [budget.refused.global, budget.refused.client, budget.refused.rate, by_switch];
        for (reason, count) in names::REASON.values.iter().copied().zip(counts) {
            refused.sample(&[class, reason], count);
        }
    }
}

fn calls(status: &Status, text: &mut Exposition) {
    let mut calls = text.family(&names::CALLS);
    for (class, ended) in names::CLASS.values.iter().copied().zip([status.calls.directory, status.calls.media]) {
        let counts = [ended.answered, ended.timed_out, ended.failed];
        for (outcome, count) in names::OUTCOME.values.iter().copied().zip(counts) {
            calls.sample(&[class, outcome], count);
        }
    }
    let mut seconds = text.family(&names::CALL_SECONDS);
    let times = [&status.call_times.directory, &status.call_times.media];
    for (class, times) in names::CLASS.values.iter().copied().zip(times) {
        seconds.histogram(&[class], times);
    }
    text.single(&names::WORKER_OVERRUNS, status.federation_worker.overruns);
}

fn pool(seen: &AdminStatus, text: &mut Exposition) {
    let Some(pool) = seen.request_pool else { return };
    text.single(&names::REQUEST_THREADS, pool.threads);
    text.single(&names::REQUEST_THREADS_IDLE, pool.idle);
    text.single(&names::HANDLER_PANICS, pool.panicked);
}

fn long_answers(seen: &AdminStatus, text: &mut Exposition) {
    let Some(places) = seen.long_answers else { return };
    text.single(&names::LONG_ANSWERS, places.in_flight);
    text.single(&names::LONG_ANSWERS_CAP, places.cap);
    text.single(&names::LONG_ANSWERS_REFUSED, places.refused);
}

fn upstream(seen: &AdminStatus, text: &mut Exposition) {
    // The embedded homeserver is asked without a call.
    let Some(upstream) = &seen.upstream else { return };
    let (questions, waiters) = (upstream.token_questions, upstream.token_waiters);
    let (small, files) = (upstream.passed_on.small, upstream.passed_on.files);
    let all = &names::ASKED_OR_WAITING;
    let in_flight = [questions.in_flight, waiters.in_flight, small.in_flight, files.in_flight];
    by(text.family(&names::UPSTREAM_IN_FLIGHT), all, in_flight);
    by(text.family(&names::UPSTREAM_IN_FLIGHT_CAP), all, [questions.cap, waiters.cap, small.cap, files.cap]);
    let answered = [questions.answered, small.answered, files.answered];
    by(text.family(&names::UPSTREAM_ANSWERED), &names::ASKED, answered);
    let refused = [questions.refused, waiters.refused, small.refused, files.refused];
    by(text.family(&names::UPSTREAM_REFUSED), all, refused);
    by(text.family(&names::UPSTREAM_SILENT), &names::ASKED, [questions.silent, small.silent, files.silent]);
}

fn media(status: &Status, text: &mut Exposition) {
    by(text.family(&names::MEDIA_FETCHES), &names::FETCH_STATE, [status.media.running, status.media.waiting]);
    // Without the switch there is no store.
    let Some(store) = status.media.store else { return };
    text.single(&names::MEDIA_STORE_FILES, store.files);
    text.single(
        &names::MEDIA_STORE_BYTES,
        store.bytes.saturating_add(store.unfinished_bytes).saturating_add(store.pinned_bytes),
    );
    text.single(&names::MEDIA_STORE_MAX_BYTES, store.max_bytes);
    by(text.family(&names::MEDIA_STORE_DELETED), &names::DELETED, [store.evicted, store.expired, store.torn]);
    text.single(&names::MEDIA_STORE_CUT, store.cut);
}

fn gates(gates: &[GateStatus], text: &mut Exposition) {
    let sum = |of: fn(&GateStatus) -> usize| gates.iter().map(of).fold(0, usize::saturating_add);
    let breakers = [BreakerState::Closed, BreakerState::Open, BreakerState::Probing]
        .map(|state| gates.iter().filter(|gate| gate.breaker.state == state).count());
    by(text.family(&names::GATE_BREAKERS), &names::BREAKER, breakers);
    text.single(&names::GATE_LIMIT, sum(|gate| gate.limit));
    text.single(&names::GATE_ACTIVE, sum(|gate| gate.active));
    text.single(&names::GATE_HELD, sum(|gate| gate.held));
    let waiting = [
        sum(|gate| gate.waiting_by_kind.background),
        sum(|gate| gate.waiting_by_kind.brief),
        sum(|gate| gate.waiting_by_kind.long_poll),
    ];
    by(text.family(&names::GATE_WAITING), &names::CALLER, waiting);
    let oldest_ms = gates.iter().filter_map(|gate| gate.oldest_wait_ms).max().unwrap_or_default();
    text.single(&names::GATE_OLDEST_WAIT, Number::Ms(oldest_ms));
}

fn gate_counts(status: &Status, text: &mut Exposition) {
    let counts = status.gate_counts;
    by(text.family(&names::GATE_ADMITTED), &names::ADMITTED, [counts.admitted, counts.polls]);
    text.single(&names::GATE_GAVE_UP, counts.gave_up);
    text.single(&names::GATE_INTERACTIVE, counts.interactive);
    text.single(&names::GATE_COUNTED, counts.counted);
    by(text.family(&names::GATE_LOAD), &names::LOAD, [counts.timed_out, counts.overloaded]);
    text.single(&names::GATE_DROPPED, counts.dropped);
    text.single(&names::GATE_HOLDS, counts.held);
    let transitions = [counts.opened, counts.reopened, counts.probes, counts.closed];
    by(text.family(&names::GATE_TRANSITIONS), &names::TRANSITION, transitions);
}

fn process(seen: &AdminStatus, text: &mut Exposition) {
    text.single(&names::PROCESS_START, Number::Ms(seen.status.seen_at_ms.saturating_sub(seen.status.uptime_ms)));
    let process = seen.process;
    for (metric, figure) in [
        (&names::PROCESS_MEMORY, process.resident_bytes),
        (&names::PROCESS_OPEN_FDS, process.open_descriptors),
        (&names::PROCESS_MAX_FDS, process.max_descriptors),
        (&names::PROCESS_THREADS, process.threads),
    ] {
        if let Some(figure) = figure {
            text.single(metric, figure);
        }
    }
}

/// One series for each value of the one label.
fn by<const N: usize>(
    mut family: super::exposition::Family<'_>,
    label: &names::Label,
    figures: [impl Into<Number>; N],
) {
    for (value, figure) in label.values.iter().copied().zip(figures) {
        family.sample(&[value], figure);
    }
}
