//! What an admission costs, beside two well-known yardsticks, all in one run.
//!
//! `cargo bench --bench admission` ends with a table of ratios of medians. The bar: admit + release takes at most 1.1
//! times tokio's semaphore in one thread, and a refusal at the global cap no longer than the semaphore's refusal.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use parking_lot::Mutex;
use portcullis::{ClientKey, InFlightBudget, InFlightCaps, Ipv6ClientPrefix};
use tokio::sync::Semaphore;

/// Half of the default pool.
const CAP: usize = 8;
/// Operations per thread and sample in the two-thread runs: enough to drown the cost of starting threads.
const BATCH: u32 = 20_000;

fn client(last: u8) -> ClientKey {
    ClientKey::vouched(IpAddr::from([198, 51, 100, last]), Ipv6ClientPrefix::default())
}

/// The obvious way to cap per client: a map from key to count under a lock, and a total.
struct MapBudget {
    counts: Mutex<HashMap<ClientKey, usize>>,
}

impl MapBudget {
    fn try_acquire(&self, key: &ClientKey) -> bool {
        let mut counts = self.counts.lock();
        if counts.values().sum::<usize>() >= CAP {
            return false;
        }
        let held = counts.entry(*key).or_insert(0);
        if *held >= 1 {
            return false;
        }
        *held += 1;
        true
    }

    fn release(&self, key: &ClientKey) {
        self.counts.lock().remove(key);
    }
}

/// One operation of one contender; the key tells the threads apart.
type Operation = Arc<dyn Fn(&ClientKey) + Send + Sync>;

fn contenders() -> Vec<(&'static str, &'static str, Operation)> {
    let fresh = || InFlightBudget::new(InFlightCaps { global: CAP, per_key: 1 });
    let open = fresh();
    let semaphore = Arc::new(Semaphore::new(CAP));
    let map = MapBudget { counts: Mutex::default() };

    let full = fresh();
    let held: Vec<_> = (100..).take(CAP).map(|last| full.try_acquire(&client(last))).collect();
    let empty_semaphore = Arc::new(Semaphore::new(0));
    let full_map = MapBudget { counts: Mutex::new((100..).take(CAP).map(|last| (client(last), 1)).collect()) };

    let busy = fresh();
    let mine: Vec<_> = (0..2).map(|last| busy.try_acquire(&client(last))).collect();
    let busy_map = MapBudget { counts: Mutex::new((0..2).map(|last| (client(last), 1)).collect()) };

    vec![
        ("admit-release", "portcullis", Arc::new(move |key| drop(black_box(open.try_acquire(black_box(key)))))),
        (
            "admit-release",
            "tokio-semaphore",
            Arc::new(move |_| drop(black_box(Arc::clone(&semaphore).try_acquire_owned()))),
        ),
        (
            "admit-release",
            "locked-hash-map",
            Arc::new(move |key| {
                if black_box(map.try_acquire(black_box(key))) {
                    map.release(key);
                }
            }),
        ),
        (
            "refused-global",
            "portcullis",
            Arc::new(move |key| {
                black_box(&held);
                drop(black_box(full.try_acquire(black_box(key))));
            }),
        ),
        (
            "refused-global",
            "tokio-semaphore",
            Arc::new(move |_| drop(black_box(Arc::clone(&empty_semaphore).try_acquire_owned()))),
        ),
        (
            "refused-global",
            "locked-hash-map",
            Arc::new(move |key| {
                black_box(full_map.try_acquire(black_box(key)));
            }),
        ),
        (
            "refused-client",
            "portcullis",
            Arc::new(move |key| {
                black_box(&mine);
                drop(black_box(busy.try_acquire(black_box(key))));
            }),
        ),
        (
            "refused-client",
            "locked-hash-map",
            Arc::new(move |key| {
                black_box(busy_map.try_acquire(black_box(key)));
            }),
        ),
    ]
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(60)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let keys = [client(0), client(1)];
    let key = client(0);
    for (what, who, operation) in contenders() {
        criterion.bench_function(&format!("{what}/1-thread/{who}"), |bencher| bencher.iter(|| operation(&key)));
    }
    let mut group = criterion.benchmark_group("2-threads");
    group.throughput(Throughput::Elements(u64::from(2 * BATCH))).sample_size(20);
    for (what, who, operation) in contenders() {
        group.bench_function(format!("{what}/{who}"), |bencher| {
            bencher.iter(|| {
                std::thread::scope(|scope| {
                    for key in &keys {
                        let operation = &operation;
                        scope.spawn(move || (0..BATCH).for_each(|_| operation(key)));
                    }
                });
            });
        });
    }
    group.finish();
    criterion.final_summary();
    print_ratios();
}

/// The medians that criterion has just written, as ratios to the yardsticks.
fn print_ratios() {
    let home = std::env::var_os("CRITERION_HOME")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/criterion"), Into::into);
    let median = |folder: String| -> Option<f64> {
        let text = fs::read_to_string(home.join(folder).join("new/estimates.json")).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()?.pointer("/median/point_estimate")?.as_f64()
    };
    println!(
        "\n{:<18}{:<11}{:>14}{:>22}{:>22}",
        "operation", "threads", "portcullis", "÷ tokio semaphore", "÷ locked hash map"
    );
    for (threads, per_sample) in [("1-thread", 1.0), ("2-threads", f64::from(2 * BATCH))] {
        for what in ["admit-release", "refused-global", "refused-client"] {
            let of = |who: &str| {
                let folder = if threads == "1-thread" {
                    format!("{what}_1-thread_{who}")
                } else {
                    format!("2-threads/{what}_{who}")
                };
                median(folder)
            };
            let Some(ours) = of("portcullis") else { continue };
            let ratio = |who| of(who).map_or_else(|| "–".to_owned(), |theirs| format!("{:.2}", ours / theirs));
            println!(
                "{what:<18}{threads:<11}{:>11.1} ns{:>22}{:>22}",
                ours / per_sample,
                ratio("tokio-semaphore"),
                ratio("locked-hash-map")
            );
        }
    }
}
