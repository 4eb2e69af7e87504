//! Every state a small gate can reach, by any order of events, and what has to hold in each and on the way to it.
//!
//! The step is the real one; only the figures are small, so that the states are few enough to be counted. One tick of
//! time, one caller more, one call's end: whatever can happen is tried from every state, until nothing new is found.
//! `PORTCULLIS_DEEP_SEARCH=1` takes larger figures and some minutes (`--release` is advised).

mod world;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use crate::gate::constants::GateConstants;
use world::{TICK, World};

/// How many calls and callers there are at most, and the gate's figures.
struct Scale {
    constants: GateConstants,
    /// Calls out that take a slot; strays of before an opening are among them.
    slots: usize,
    /// Long-polls out, and long-polls that wait.
    polls: usize,
    /// Callers who wait for a slot.
    line: usize,
    /// Whether some of the callers wait briefly only.
    brief: bool,
}

impl Scale {
    /// A hold and a period at worst, an end for each call, an admission and an end for each caller.
    fn recovery_bound(&self) -> usize {
        let wait = (self.constants.timeout_hold + self.constants.cooldown_max).as_secs();
        usize::try_from(wait).unwrap() + self.slots + self.polls + 2 * (self.line + self.polls)
    }
}

/// What a search found.
#[derive(Debug)]
struct Found {
    states: usize,
    steps: usize,
    /// The most slots in use in any state.
    most_slots: usize,
    /// The most steps after which everybody was served and the breaker closed, once every call succeeds.
    longest_recovery: usize,
}

/// Small, and with everything in it: a ceiling from which one halving does not lead to the floor, a first period shorter
/// than a hold, a second one as long, and a cap that is longer.
fn small(max_limit: usize) -> GateConstants {
    GateConstants {
        initial_limit: 2,
        max_limit,
        grow_after: 2,
        timeout_hold: 3 * TICK,
        cooldown: TICK,
        cooldown_max: 4 * TICK,
    }
}

impl Found {
    fn print(&self) {
        let Self { states, steps, most_slots, longest_recovery } = self;
        println!(
            "{states} states, {steps} steps, at most {most_slots} slots in use, recovery within {longest_recovery} steps"
        );
    }
}

/// Breadth first, to the fixpoint.
fn search(scale: &Scale) -> Found {
    let start = World::new(scale.constants);
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let mut states = vec![start];
    // Where each state leads if everything goes well from now on; nowhere if there is nothing left to go well.
    let mut recovery: Vec<Option<usize>> = Vec::new();
    let mut steps = 0;
    while let Some(world) = states.get(recovery.len()).cloned() {
        world.check(scale);
        let kindly = world.kindly();
        let mut after_kindly = None;
        for what in world.moves(scale) {
            steps += 1;
            let next = world.after(what);
            if !next.is_within(scale) {
                continue;
            }
            let number = match numbers.entry(next) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    states.push(new.key().clone());
                    *new.insert(states.len() - 1)
                }
            };
            if Some(what) == kindly {
                after_kindly = Some(number);
            }
        }
        assert_eq!(after_kindly.is_some(), kindly.is_some(), "a kind world's move is among the moves of {world:?}");
        recovery.push(after_kindly);
    }
    let longest_recovery = longest_recovery(&recovery, &states);
    assert!(longest_recovery <= scale.recovery_bound(), "{longest_recovery}");
    let most_slots = states.iter().map(World::slots_in_use).max().unwrap_or(0);
    Found { states: states.len(), steps, most_slots, longest_recovery }
}

/// Never wedged: from every state a kind world leads to a closed breaker with nobody left waiting, and not in circles.
fn longest_recovery(leads_to: &[Option<usize>], states: &[World]) -> usize {
    let steps_from = |start: usize| {
        let (mut at, mut steps) = (start, 0);
        while let Some(next) = leads_to[at] {
            (at, steps) = (next, steps + 1);
            assert!(steps <= states.len(), "wedged: {:?}", states[start]);
        }
        assert!(states[at].is_served(), "stuck at {:?}", states[at]);
        steps
    };
    (0..states.len()).map(steps_from).max().unwrap_or(0)
}

fn deep() -> bool {
    std::env::var_os("PORTCULLIS_DEEP_SEARCH").is_some()
}

#[test]
fn background_callers_alone_never_have_more_slots_than_the_ceiling() {
    let (max_limit, line) = if deep() { (5, 4) } else { (4, 3) };
    let scale = Scale { constants: small(max_limit), slots: max_limit, polls: 0, line, brief: false };
    let found = search(&scale);
    found.print();
    assert_eq!(found.most_slots, max_limit);
    assert!(found.states >= 1_100, "the search has shrunk: {found:?}");
}

#[test]
fn every_order_of_every_kind_of_caller_keeps_the_rules() {
    let (max_limit, slots, polls, line) = if deep() { (4, 5, 2, 3) } else { (3, 4, 1, 3) };
    let scale = Scale { constants: small(max_limit), slots, polls, line, brief: true };
    let found = search(&scale);
    found.print();
    assert!(found.states >= 18_000, "the search has shrunk: {found:?}");
}

#[test]
fn a_period_that_is_always_longer_than_a_hold_keeps_the_rules_too() {
    let constants = GateConstants { timeout_hold: TICK, cooldown: 2 * TICK, ..small(2) };
    let scale = Scale { constants, slots: 3, polls: 2, line: 1, brief: true };
    let found = search(&scale);
    found.print();
    assert!(found.states >= 1_500, "the search has shrunk: {found:?}");
}

/// The searcher's own figures: a tick divides every one of them, so that nothing falls between two ticks.
#[test]
fn the_small_figures_are_whole_ticks() {
    for constants in [small(2), small(3)] {
        for time in [constants.timeout_hold, constants.cooldown, constants.cooldown_max] {
            assert_eq!(Duration::from_secs(time.as_secs()), time);
        }
    }
}
