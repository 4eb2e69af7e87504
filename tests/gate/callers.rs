//! The record's callers, with their figures: what they wait, what bounds them, what they teach.

use std::future::pending;

use portcullis::gate::{BackgroundCaller, BreakerState, NotAnswered, OuterTimeout, Wait};
use portcullis::{Outcome, Took};
use tokio::time::sleep;

use crate::rig::{FAILED, FAST, Rig, TIMED_OUT, secs};

const BOOT_SWEEP: BackgroundCaller = BackgroundCaller::KeyBackupDownload { backups_enabled: true };
const WITHOUT_BACKUPS: BackgroundCaller = BackgroundCaller::KeyBackupDownload { backups_enabled: false };

#[test]
fn the_figures_are_the_records() {
    for (caller, timeout, wait) in [
        (BackgroundCaller::BackfillPage, 30, Wait::AsLongAsItTakes),
        (BackgroundCaller::UpstreamRoomProbe, 15, Wait::Briefly(secs(10))),
        (BOOT_SWEEP, 30, Wait::AsLongAsItTakes),
        (WITHOUT_BACKUPS, 30, Wait::NotAtAll),
        (BackgroundCaller::AutoJoin, 30, Wait::Briefly(secs(10))),
    ] {
        assert_eq!((caller.timeout(), caller.wait()), (secs(timeout), wait), "{caller:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_bounded_by_its_timeout_and_a_timeout_is_held() {
    for (caller, timeout) in
        [(BackgroundCaller::BackfillPage, 30), (BackgroundCaller::UpstreamRoomProbe, 15), (BOOT_SWEEP, 30)]
    {
        let rig = Rig::new();
        let silent = rig.gate.call(caller, pending::<()>, |(), _| FAST).await;
        assert_eq!(silent, Err(NotAnswered::TimedOut(OuterTimeout { allowed: secs(timeout) })));
        assert_eq!((rig.now_ms(), rig.slots()), (timeout * 1000, (1, 0, 1)), "{caller:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_ones_own_waits_as_long_as_it_takes_and_then_has_its_own_timeout() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let gate = rig.gate.clone();
    let mut classified = None;
    let call = tokio::spawn(async move {
        let slow = || sleep(secs(59));
        let answer = gate.call_within(secs(60), slow, |(), took| {
            classified = Some(took);
            Outcome::success(took)
        });
        (answer.await, classified)
    });
    rig.at(600).await;
    active.finish(FAST);
    assert_eq!(call.await.unwrap(), (Ok(()), Some(Took { elapsed: secs(59), timeout: secs(60) })));
    assert_eq!(rig.now_ms(), 659_000);
    let late = rig.gate.call_within(secs(60), pending::<()>, |(), _| FAST).await;
    assert_eq!(late.map_err(|timeout| timeout.allowed), Err(secs(60)));
    assert_eq!(rig.gate.status().held, 1);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_begins_with_the_permit_and_not_with_the_wait() {
    let rig = Rig::starting_at(1);
    let active = rig.admitted().await;
    let gate = rig.gate.clone();
    let page = tokio::spawn(async move {
        let slow = || sleep(secs(14));
        gate.call(BackgroundCaller::BackfillPage, slow, |(), took| Outcome::success(took)).await
    });
    rig.at(600).await;
    active.finish(FAST);
    assert_eq!(page.await.unwrap(), Ok(()));
    assert_eq!(rig.now_ms(), 614_000);
    rig.succeed(8).await;
    assert_eq!(rig.limit(), 2, "fourteen seconds of thirty are fast, whatever the wait was");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_made_only_once_there_is_a_permit() {
    let rig = Rig::open().await;
    let mut made = false;
    let join = || {
        made = true;
        async {}
    };
    let refused = rig.gate.call(BackgroundCaller::AutoJoin, join, |(), _| FAST).await;
    assert_eq!((refused, rig.now_ms()), (Err(NotAnswered::NoPermit), 0));
    assert!(!made, "nothing is prepared in vain");
}

#[tokio::test(start_paused = true)]
async fn a_downloads_success_teaches_nothing_and_closes_nothing() {
    let rig = Rig::new();
    rig.succeed(9).await;
    for _ in 0..20 {
        assert_eq!(rig.gate.call(BOOT_SWEEP, || async { 7 }, |_, _| FAST).await, Ok(7));
    }
    assert_eq!(rig.limit(), 2);

    let rig = Rig::open().await;
    rig.at(60).await;
    rig.gate.call(BOOT_SWEEP, || async {}, |(), _| Outcome::SlowSuccess).await.unwrap();
    assert_eq!((rig.breaker(), rig.look().next_probe), ((BreakerState::Open, 0), Some(60_000)));
    rig.gate.call(BOOT_SWEEP, || async {}, |(), _| FAILED).await.unwrap();
    assert_eq!(rig.breaker(), (BreakerState::Open, 1), "its failures do count");
}

#[tokio::test(start_paused = true)]
async fn without_backups_a_download_takes_no_permit_and_reports_like_a_users_call() {
    let rig = Rig::open().await;
    assert_eq!(rig.gate.call(WITHOUT_BACKUPS, || async { 1 }, |_, _| FAST).await, Ok(1));
    assert_eq!((rig.now_ms(), rig.breaker()), (0, (BreakerState::Open, 0)), "it did not wait");

    let rig = Rig::new();
    let (_one, _other) = (rig.admitted().await, rig.admitted().await);
    let silent = rig.gate.call(WITHOUT_BACKUPS, pending::<()>, |(), _| FAST).await;
    assert_eq!(silent, Err(NotAnswered::TimedOut(OuterTimeout { allowed: secs(30) })));
    assert_eq!(rig.slots(), (1, 2, 0), "halved, and nothing held");
    rig.gate.call(WITHOUT_BACKUPS, || async {}, |(), _| FAILED).await.unwrap();
    assert_eq!((rig.limit(), rig.breaker()), (1, (BreakerState::Closed, 0)), "never below one");
}

#[tokio::test(start_paused = true)]
async fn a_pass_of_the_upstream_probe_asks_about_eight_rooms_and_leaves_the_rest() {
    let rig = Rig::new();
    let ask = |room: &u32| {
        let room = *room;
        async move {
            sleep(secs(1)).await;
            room * 10
        }
    };
    let pass = rig.gate.upstream_probe_pass(0..11, ask, |_, took| Outcome::success(took)).await;
    assert_eq!(pass.asked, (0..8).map(|room| (room, Ok(room * 10))).collect::<Vec<_>>());
    assert_eq!((pass.left, rig.now_ms()), (vec![8, 9, 10], 8_000), "one after the other");
}

#[tokio::test(start_paused = true)]
async fn a_pass_goes_on_after_a_room_that_times_out() {
    let rig = Rig::starting_at(4);
    let ask = |room: &u32| sleep(secs(if *room == 0 { 60 } else { 1 }));
    let pass = rig.gate.upstream_probe_pass(0..3, ask, |(), _| Outcome::SlowSuccess).await;
    assert_eq!(pass.asked, [(0, Err(OuterTimeout { allowed: secs(15) })), (1, Ok(())), (2, Ok(()))]);
    assert_eq!((pass.left, rig.slots()), (vec![], (2, 0, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_gets_no_permit_in_ten_seconds_leaves_that_room_and_the_rest() {
    let rig = Rig::starting_at(2);
    let _active = rig.admitted().await;
    // The second room times out: its slot is held, the limit is one, and an active call fills it.
    let ask = |room: &u32| sleep(secs(if *room == 1 { 60 } else { 1 }));
    let pass = rig.gate.upstream_probe_pass(0..4, ask, |(), _| Outcome::SlowSuccess).await;
    assert_eq!(pass.asked, [(0, Ok(())), (1, Err(OuterTimeout { allowed: secs(15) }))]);
    assert_eq!((pass.left, rig.now_ms()), (vec![2, 3], 1_000 + 15_000 + 10_000));
}

#[tokio::test(start_paused = true)]
async fn a_pass_at_an_open_breaker_ends_at_once_and_its_first_room_is_the_probe_when_one_is_due() {
    let rig = Rig::open().await;
    let pass = rig.gate.upstream_probe_pass(0..3, |_| async {}, |(), _| FAST).await;
    assert_eq!((pass.asked, pass.left, rig.now_ms()), (vec![], vec![0, 1, 2], 0));
    rig.at(60).await;
    let pass = rig.gate.upstream_probe_pass(0..3, |_| async {}, |(), _| FAST).await;
    assert_eq!((pass.asked.len(), rig.breaker()), (3, (BreakerState::Closed, 0)));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_drops_what_runs_inside_and_frees_the_slot() {
    let rig = Rig::new();
    let call = rig.gate.call(BackgroundCaller::BackfillPage, pending::<()>, |(), _| TIMED_OUT);
    assert!(tokio::time::timeout(secs(5), call).await.is_err());
    assert_eq!((rig.slots(), rig.gate.status().counts.dropped), ((2, 0, 0), 1));
}
