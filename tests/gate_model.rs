//! Long random scripts at the load gate's core, against a model written from the record's text.
//!
//! After every event both have let in the same callers, and show the same limit, holds, breaker, count of reopenings and
//! next admission, with the same times. The model and the comparison are the fuzz target `gate_ops`'s own.

#![cfg(feature = "server")]

use std::time::Duration;

use portcullis::fuzzing::{GateAct, GateReached, figures_of, gate_acts};
use portcullis::gate::{CallerKind, GateConstants};
use portcullis::{Outcome, Overload};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

fn kind() -> impl Strategy<Value = CallerKind> {
    prop_oneof![4 => Just(CallerKind::Background), 2 => Just(CallerKind::Brief), 2 => Just(CallerKind::LongPoll)]
}

/// Everything that can come of a call.
fn any_outcome() -> BoxedStrategy<Outcome> {
    let of = [
        Outcome::FastSuccess,
        Outcome::SlowSuccess,
        Outcome::UnknownSuccess,
        Outcome::Refused,
        Outcome::Unsent,
        Outcome::TimedOut,
        Outcome::Overloaded(Overload::ServerError),
        Outcome::Overloaded(Overload::TooManyRequests),
        Outcome::Overloaded(Overload::Transport),
    ];
    select(of.to_vec()).boxed()
}

/// A homeserver that is well: the limit climbs.
fn well() -> BoxedStrategy<Outcome> {
    prop_oneof![40 => Just(Outcome::FastSuccess), 1 => any_outcome()].boxed()
}

/// A homeserver that is down: the breaker reopens again and again.
fn down() -> BoxedStrategy<Outcome> {
    select(vec![Outcome::TimedOut, Outcome::Overloaded(Overload::ServerError)]).boxed()
}

fn a_while() -> impl Strategy<Value = Duration> {
    prop_oneof![3 => 0..=2_000_u64, 2 => 0..=60_000_u64, 1 => 0..=2_000_000_u64].prop_map(Duration::from_millis)
}

fn act(outcome: BoxedStrategy<Outcome>) -> impl Strategy<Value = GateAct> {
    prop_oneof![
        8 => kind().prop_map(GateAct::Arrives),
        1 => any::<u8>().prop_map(GateAct::Leaves),
        8 => (any::<u8>(), outcome.clone()).prop_map(|(index, outcome)| GateAct::Ends(index, Some(outcome))),
        1 => any::<u8>().prop_map(|index| GateAct::Ends(index, None)),
        3 => Just(GateAct::UserStarts),
        3 => (any::<u8>(), outcome, any::<bool>())
            .prop_map(|(index, outcome, upload)| GateAct::UserEnds(index, outcome, upload)),
        2 => a_while().prop_map(GateAct::Waits),
        1 => a_while().prop_map(GateAct::WaitsUnseen),
        3 => Just(GateAct::WaitsUntilNext),
        1 => Just(GateAct::WaitsUntilJustBefore),
    ]
}

/// Calls that come and time out with no time between them: holds pile up.
fn burst() -> impl Strategy<Value = GateAct> {
    let times_out = any::<u8>().prop_map(|index| GateAct::Ends(index, Some(Outcome::TimedOut)));
    prop_oneof![2 => kind().prop_map(GateAct::Arrives), 1 => times_out]
}

/// Some spells of weather, one after the other.
fn script() -> impl Strategy<Value = Vec<GateAct>> {
    let spell = prop_oneof![
        2 => vec(act(any_outcome()), 0..80),
        1 => vec(act(well()), 0..160),
        1 => vec(act(down()), 0..160),
        1 => vec(burst(), 0..40),
    ];
    vec(spell, 1..6).prop_map(|spells| spells.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn with_the_records_figures_gate_and_model_agree(acts in script()) {
        gate_acts(GateConstants::default(), &acts);
    }

    #[test]
    fn with_any_figures_gate_and_model_agree(figures in any::<u8>(), acts in script()) {
        gate_acts(figures_of(figures), &acts);
    }
}

/// A comparison is worth as much as the scripts: some of a fixed hundred reach every corner.
#[test]
fn the_scripts_reach_every_corner() {
    let mut runner = TestRunner::deterministic();
    let scripts = script();
    let script = |_| scripts.new_tree(&mut runner).unwrap().current();
    let reached: Vec<_> = (0..100).map(script).map(|acts| gate_acts(GateConstants::default(), &acts)).collect();
    let most = |of: fn(&GateReached) -> usize| reached.iter().map(of).max().unwrap();
    assert_eq!(most(|reached| reached.limit), 4, "the ceiling");
    assert!(most(|reached| reached.held) >= 4, "many holds");
    assert!(most(|reached| reached.closed) >= 2, "a second outage");
    assert!(reached.iter().filter(|reached| reached.halved_by_users > 0).count() >= 10, "users halve the limit");
    assert!(reached.iter().any(|reached| reached.reopened >= 7), "the cap of the open period, and beyond");
    for kind in 0..3 {
        assert!(reached.iter().any(|reached| reached.probes[kind] > 0), "a probe of kind {kind}");
    }
}
