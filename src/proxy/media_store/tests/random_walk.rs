//! Any order of what users do, restarts and damage included: the disk holds what the store says, and no more than it may.

use std::collections::HashMap;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

const BYTES: u64 = MIB;
const MAX_FILE: usize = 600_000;

#[derive(Clone, Debug)]
enum Step {
    Begin { key: u8 },
    Write { which: usize, bytes: usize },
    Keep { which: usize },
    Drop { which: usize },
    Read { key: u8 },
    Lose { key: u8 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8).prop_map(|key| Step::Begin { key }),
        8 => (0..4usize, 0..300_000usize).prop_map(|(which, bytes)| Step::Write { which, bytes }),
        4 => (0..4usize).prop_map(|which| Step::Keep { which }),
        1 => (0..4usize).prop_map(|which| Step::Drop { which }),
        6 => (0..6u8).prop_map(|key| Step::Read { key }),
        1 => (0..6u8).prop_map(|key| Step::Lose { key }),
        1 => Just(Step::Restart),
    ]
}

/// Without a runtime everything is done before the call returns.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

fn sizes(dir: &TempDir, extension: &str) -> u64 {
    let of_kind = on_disk(dir).into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    of_kind.map(|path| fs::metadata(path).unwrap().len()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_disk_holds_what_the_store_says_and_no_more_than_it_may(steps in prop::collection::vec(step(), 150)) {
        let dir = TempDir::new().unwrap();
        let bounds = || StoreBounds { bytes: BYTES, max_file: 600_000, ..bounds(dir.path()) };
        let mut store = MediaStore::open(bounds()).unwrap();
        let mut growing: Vec<(u8, Unfinished, usize)> = Vec::new();
        let mut kept: HashMap<u8, usize> = HashMap::new();
        for step in steps {
            match step {
                Step::Begin { key: number } if growing.len() < 4 => {
                    growing.extend(at_once(store.begin(key(number), meta())).ok().map(|file| (number, file, 0)));
                }
                Step::Write { which, bytes } => {
                    let Some((_, file, written)) = growing.get_mut(which) else { continue };
                    let more = content(*written + bytes).slice(*written..);
                    match at_once(file.write(more)) {
                        Ok(()) => *written += bytes,
                        Err(StoreFault::TooLarge) => prop_assert!(*written + bytes > MAX_FILE),
                        Err(fault) => {
                            prop_assert_eq!(fault, StoreFault::NoRoom);
                            drop(growing.remove(which));
                        }
                    }
                }
                Step::Keep { which } if which < growing.len() => {
                    let (number, mut file, written) = growing.remove(which);
                    at_once(file.complete()).unwrap();
                    at_once(file.keep()).unwrap();
                    kept.insert(number, written);
                }
                Step::Drop { which } if which < growing.len() => drop(growing.remove(which)),
                Step::Read { key: number } => {
                    let Some(found) = store.find(&key(number)) else { continue };
                    let bytes = at_once(async { read(found.open().await.unwrap()).await }).unwrap();
                    prop_assert_eq!(bytes, content(kept[&number]));
                }
                Step::Lose { key: number } => {
                    let Some(found) = store.find(&key(number)) else { continue };
                    let start = key(number).name().to_owned();
                    let path = on_disk(&dir).into_iter().find(|path| {
                        let name = path.file_name().unwrap().to_str().unwrap();
                        name.starts_with(&start) && path.extension().is_some_and(|extension| extension == "media")
                    });
                    fs::remove_file(path.unwrap()).unwrap();
                    prop_assert!(at_once(found.open()).is_err());
                    prop_assert!(store.find(&key(number)).is_none());
                }
                Step::Restart => {
                    growing.clear();
                    drop(store);
                    store = MediaStore::open(bounds()).unwrap();
                    prop_assert_eq!(store.usage().torn, 0);
                }
                Step::Begin { .. } | Step::Keep { .. } | Step::Drop { .. } => {}
            }
            let usage = store.usage();
            prop_assert_eq!(sizes(&dir, "media"), usage.bytes);
            prop_assert!(sizes(&dir, "part") <= usage.unfinished_bytes);
            prop_assert!(usage.bytes + usage.unfinished_bytes <= BYTES);
            prop_assert_eq!(usage.unfinished, u64::try_from(growing.len()).unwrap());
        }
    }
}
