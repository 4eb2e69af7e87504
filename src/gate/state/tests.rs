//! The pure state beside its shortcut, and what is forgotten of it for a search.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A few bits of chance for each step of a script.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}

const OUTCOMES: [Option<Outcome>; 8] = [
    Some(Outcome::FastSuccess),
    Some(Outcome::FastSuccess),
    Some(Outcome::SlowSuccess),
    Some(Outcome::UnknownSuccess),
    Some(Outcome::Refused),
    Some(Outcome::TimedOut),
    Some(Outcome::Overloaded(crate::outcome::Overload::ServerError)),
    None,
];

/// Whatever happened before, a call that ends quietly leaves the state that a step would, and nobody would have been let in.
#[test]
fn a_quiet_end_is_the_step_it_stands_for() {
    let (mut quiet, mut loud) = (0, 0);
    for seed in 0..2_000_u64 {
        let mut state = State::new(GateConstants { grow_after: 3, ..GateConstants::default() });
        let mut out: Vec<Grant> = Vec::new();
        let mut now = Duration::ZERO;
        for turn in 0..60_u64 {
            let chance = mixed(seed << 20 | turn);
            now += SECOND * u32::try_from(chance % 200).unwrap();
            let waiter = WaiterId(usize::try_from(turn).unwrap());
            let kind = [CallerKind::Background, CallerKind::Brief, CallerKind::LongPoll]
                [usize::try_from(chance / 200 % 3).unwrap()];
            let effects = if (chance / 600).is_multiple_of(2) || out.is_empty() {
                state.step(Event::Arrived { waiter, kind }, now)
            } else {
                let grant = out.swap_remove(usize::try_from(chance / 1_200).unwrap() % out.len());
                let outcome = OUTCOMES[usize::try_from(chance / 1_200 % 8).unwrap()];
                let mut shortcut = state.clone();
                let said = shortcut.ends_quietly(grant, outcome);
                let before = state.clone();
                let effects = state.step(Event::Ended { grant, outcome }, now);
                if let Some(counted) = said {
                    quiet += 1;
                    assert_eq!(shortcut, state);
                    let call = Call::Gated(grant.kind);
                    let finished = Dated { at: now, what: Happened::Finished { call, outcome, counted } };
                    assert_eq!(effects, Effects { happened: vec![finished], ..Effects::default() });
                } else {
                    loud += 1;
                    assert_eq!(shortcut, before, "it must not have touched anything");
                }
                effects
            };
            out.extend(effects.verdicts.iter().filter_map(|(_, verdict)| match verdict {
                Verdict::Granted(grant) => Some(*grant),
                Verdict::Refused => None,
            }));
        }
    }
    assert!(quiet > 1_000 && loud > 1_000, "{quiet} quiet, {loud} loud");
}

/// A hold that is over is somebody's to take note of, and an end may be the first to come by.
#[test]
fn an_end_is_not_quiet_while_a_slot_is_held() {
    let mut state = State::new(GateConstants::default());
    let [timed_out, slow] = [0, 1].map(|id| {
        let arrived = Event::Arrived { waiter: WaiterId(id), kind: CallerKind::Background };
        match state.step(arrived, Duration::ZERO).verdicts[..] {
            [(_, Verdict::Granted(grant))] => grant,
            ref other => panic!("a slot is free: {other:?}"),
        }
    });
    state.step(Event::Ended { grant: timed_out, outcome: Some(Outcome::TimedOut) }, 30 * SECOND);
    let before = state.clone();
    assert_eq!(state.ends_quietly(slow, Some(Outcome::SlowSuccess)), None);
    assert_eq!(state, before, "it must not have touched anything");
    let effects = state.step(Event::Ended { grant: slow, outcome: Some(Outcome::SlowSuccess) }, 930 * SECOND);
    let over = Dated { at: 930 * SECOND, what: Happened::HoldExpired };
    assert_eq!((effects.happened.first(), state.slots_in_use()), (Some(&over), 0));
}

/// Two gates with the same history an hour apart are one to a search; and so is an outage however old.
#[test]
fn a_canonical_state_forgets_the_date() {
    let history = |start: Duration| {
        let mut state = State::new(GateConstants::default());
        let effects = state.step(Event::Arrived { waiter: WaiterId(0), kind: CallerKind::Background }, start);
        let Some((_, Verdict::Granted(grant))) = effects.verdicts.first().copied() else { panic!("a slot is free") };
        state.step(Event::Ended { grant, outcome: Some(Outcome::TimedOut) }, start + 30 * SECOND);
        (state.canonical(start + 40 * SECOND), state)
    };
    let (early, state) = history(Duration::ZERO);
    let (late, _) = history(3_600 * SECOND);
    assert_eq!(early, late);
    assert_ne!(early, state.canonical(41 * SECOND), "a hold that ends sooner is another state");
    assert_eq!(early.snapshot().held, [890 * SECOND]);
}
