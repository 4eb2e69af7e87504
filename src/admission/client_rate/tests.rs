//! The buckets to the nanosecond, and beside a model that forgets nothing.

use proptest::prelude::*;

use super::*;
use crate::admission::Ipv6ClientPrefix;

const MILLISECOND: Duration = Duration::from_millis(1);

fn client(number: u16) -> ClientKey {
    let [high, low] = number.to_be_bytes();
    ClientKey::vouched([198, 18, high, low].into(), Ipv6ClientPrefix::default())
}

fn buckets(per_minute: u32, burst: u32, most: usize) -> Buckets {
    Buckets::new(RateLimit { per_minute, burst }, NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_out_at_once_and_then_one_each_interval() {
    let mut buckets = buckets(60, 3, 8);
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(buckets.take(&client(1), start), Ok(()));
    }
    assert_eq!(buckets.take(&client(1), start), Err(Duration::from_secs(1)));
    // To be refused costs nothing: the wait is still the same.
    assert_eq!(buckets.take(&client(1), start), Err(Duration::from_secs(1)));
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(buckets.take(&client(1), Instant::now()), Err(MILLISECOND));
    tokio::time::advance(MILLISECOND).await;
    assert_eq!(buckets.take(&client(1), Instant::now()), Ok(()));
    assert_eq!(buckets.take(&client(1), Instant::now()), Err(Duration::from_secs(1)));
    // Another client has a bucket of its own.
    assert_eq!(buckets.take(&client(2), Instant::now()), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_there_is_a_burst_and_no_more() {
    let mut buckets = buckets(60, 3, 8);
    assert_eq!(buckets.take(&client(1), Instant::now()), Ok(()));
    tokio::time::advance(Duration::from_secs(3600)).await;
    let taken = (0..10).filter(|_| buckets.take(&client(1), Instant::now()).is_ok()).count();
    assert_eq!(taken, 3);
}

#[tokio::test(start_paused = true)]
async fn a_minute_never_has_more_than_the_rate_and_the_burst() {
    // 7 does not divide a minute.
    for (per_minute, burst) in [(7, 1), (60, 20), (600, 300), (60_000, 1)] {
        let mut buckets = buckets(per_minute, burst, 8);
        let start = Instant::now();
        let interval = buckets.limit.interval();
        let mut now = start;
        let mut taken = 0;
        while now < start + MINUTE {
            match buckets.take(&client(1), now) {
                Ok(()) => taken += 1,
                Err(wait) => {
                    assert!(wait <= interval);
                    now += wait;
                }
            }
        }
        // The burst, and one after each interval that ends within the minute.
        let ends_within = u32::from(!MINUTE.as_nanos().is_multiple_of(interval.as_nanos()));
        let intervals = u32::try_from(MINUTE.as_nanos() / interval.as_nanos()).unwrap();
        assert_eq!(taken, burst + intervals + ends_within - 1, "{per_minute} {burst}");
        assert!(taken < burst + per_minute, "{per_minute} {burst}");
    }
}

#[tokio::test(start_paused = true)]
async fn full_buckets_are_forgotten_while_others_come() {
    let mut buckets = buckets(60, 2, 100);
    for number in 0..100 {
        assert_eq!(buckets.take(&client(number), Instant::now()), Ok(()));
    }
    assert_eq!((buckets.due.len(), buckets.by_due.len()), (100, 100));
    tokio::time::advance(Duration::from_secs(2)).await;
    for _ in 0..60 {
        let _ = buckets.take(&client(1), Instant::now());
    }
    assert_eq!((buckets.due.len(), buckets.by_due.len()), (1, 1));
    assert_eq!(buckets.floor, None);
}

#[tokio::test(start_paused = true)]
async fn the_fullest_bucket_makes_room_and_its_owner_gains_nothing() {
    let mut buckets = buckets(60, 2, 2);
    let now = Instant::now();
    assert_eq!(buckets.take(&client(1), now), Ok(()));
    assert_eq!(buckets.take(&client(2), now), Ok(()));
    assert_eq!(buckets.take(&client(2), now), Ok(()));
    // One has one call left, two has none: one makes room.
    assert_eq!(buckets.take(&client(3), now), Ok(()));
    assert!(!buckets.due.contains_key(&client(1)) && buckets.due.contains_key(&client(2)));
    // It has still the one call, and then none.
    assert_eq!(buckets.take(&client(1), now), Ok(()));
    assert_eq!(buckets.take(&client(1), now), Err(Duration::from_secs(1)));
    assert_eq!(buckets.due.len(), 2);
}

#[test]
fn zero_and_more_than_the_most_are_no_limits() {
    for (per_minute, burst) in [(0, 1), (1, 0), (60_001, 1), (1, 60_001)] {
        assert_eq!(RateLimit::new(RateCaps { per_minute, burst }), None);
    }
    assert!(RateLimit::new(RateCaps { per_minute: 60_000, burst: 60_000 }).is_some());
}

/// Counts credit in nanoseconds, for every client there ever was.
struct Model {
    limit: RateLimit,
    credit: HashMap<ClientKey, (Duration, Instant)>,
}

impl Model {
    fn take(&mut self, client: ClientKey, now: Instant) -> Result<(), Duration> {
        let (cost, most) = (self.limit.interval(), self.limit.interval() * self.limit.burst);
        let (credit, at) = self.credit.entry(client).or_insert((most, now));
        *credit = (*credit + (now - *at)).min(most);
        *at = now;
        match credit.checked_sub(cost) {
            Some(left) => {
                *credit = left;
                Ok(())
            }
            None => Err(cost.saturating_sub(*credit)),
        }
    }
}

fn asked() -> impl Strategy<Value = Vec<(u16, u64)>> {
    proptest::collection::vec((0_u16..12, 0_u64..1500), 1..400)
}

proptest! {
    #[test]
    fn with_room_for_all_it_decides_as_the_model_does(
        asked in asked(), per_minute in 1_u32..200, burst in 1_u32..9,
    ) {
        let mut buckets = buckets(per_minute, burst, 12);
        let mut model = Model { limit: buckets.limit, credit: HashMap::new() };
        let mut now = Instant::now();
        for (number, later) in asked {
            now += Duration::from_millis(later);
            prop_assert_eq!(buckets.take(&client(number), now), model.take(client(number), now));
        }
    }

    #[test]
    fn a_flood_of_clients_lets_nobody_through_more_often(
        asked in asked(), per_minute in 1_u32..200, burst in 1_u32..9, most in 1_usize..6,
    ) {
        let mut buckets = buckets(per_minute, burst, most);
        // Hears of those who were let through, so that it knows what each may still have.
        let mut model = Model { limit: buckets.limit, credit: HashMap::new() };
        let mut now = Instant::now();
        for (number, later) in asked {
            now += Duration::from_millis(later / 8);
            if buckets.take(&client(number), now).is_ok() {
                prop_assert_eq!(model.take(client(number), now), Ok(()));
            }
            prop_assert!(buckets.due.len() <= most);
            prop_assert_eq!(buckets.due.len(), buckets.by_due.len());
        }
    }

    #[test]
    fn who_waits_as_told_is_let_through(asked in asked(), per_minute in 1_u32..200, burst in 1_u32..9, most in 1_usize..6) {
        let mut buckets = buckets(per_minute, burst, most);
        let mut now = Instant::now();
        for (number, later) in asked {
            now += Duration::from_millis(later / 8);
            if let Err(wait) = buckets.take(&client(number), now) {
                now += wait;
                prop_assert_eq!(buckets.take(&client(number), now), Ok(()));
            }
        }
    }
}
