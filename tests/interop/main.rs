//! What we say to a real Synapse, and what it says to us: as the server asked, as the homeserver behind, and as both.
//!
//! ```text
//! PORTCULLIS_INTEROP=1 cargo test --test interop               # installs Synapse where it is missing (two minutes)
//! PORTCULLIS_INTEROP=1 cargo test --test interop -- key        # the tests with `key` in their names
//! ```
//!
//! Without `PORTCULLIS_INTEROP` nothing is downloaded: the tests run if Synapse is there already, and stand aside, loudly, if
//! it is not. See `peers/README.md` for what is started and where it lives.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod attack;
mod files;
mod front;
mod keys;
mod lists;
mod rig;
mod world;

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};
use world::World;

/// Set: the tests run whatever they need, and standing aside is a failure.
const WANTED: &str = "PORTCULLIS_INTEROP";

/// What a test is started with.
type Test = fn(&World);

macro_rules! tests {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($name)), |world| world.run($module::$name(world)))),+),+]
    };
}

/// A Synapse is asked by our own homeserver.
const REMOTE: &[(&str, Test)] = tests! {
    lists: pages_lead_to_the_end, posted_pages_lead_to_the_end, a_search_finds_its_room,
        a_room_type_is_passed_on, a_broken_page_token_is_the_remotes_failure, an_alias_is_found, an_unknown_alias_is_not_found,
        an_answer_is_remembered;
    files: small_files_arrive_whole, twenty_mebibytes_arrive_whole, a_page_is_saved_and_not_shown, a_thumbnail_is_made,
        an_unknown_file_is_not_found, the_old_paths_lead_to_the_new_endpoint;
    keys: our_key_is_fetched_once, a_wrong_key_is_our_502, a_key_that_cannot_be_fetched_is_our_502;
};

/// A Synapse is behind us; where another server is asked, it is the other Synapse.
const UPSTREAM: &[(&str, Test)] = tests! {
    front: local_lists_come_from_behind, local_aliases_come_from_behind, own_files_come_from_behind, a_token_is_known_behind,
        an_alias_is_made_and_removed_through_us, other_servers_are_asked_with_its_key,
        while_it_is_stopped_the_rest_works, forged_tokens_take_no_thread;
};

/// Times are taken, so nothing else runs.
const ATTACKS: &[(&str, Test)] = tests! {
    attack: silent_remotes_slow_nobody_down, dripping_remotes_slow_nobody_down;
};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Tests share the peers, and one of them stops a peer.
    arguments.test_threads = Some(1);
    let wanted = env::var_os(WANTED).is_some_and(|value| !value.is_empty());
    if let (false, Err(folder)) = (wanted, rig::installed()) {
        eprintln!("!!! There is no Synapse in {}.", folder.display());
        eprintln!("!!! The interop tests CANNOT RUN; nothing they prove is proved here.");
        eprintln!("!!! With {WANTED}=1 they install it with pip first; that needs Python 3.11 and openssl.");
        arguments.ignored = false;
        arguments.include_ignored = false;
        let aside = |trial: Trial| trial.with_ignored_flag(true).with_kind("no Synapse");
        return libtest_mimic::run(&arguments, trials(&Arc::default()).into_iter().map(aside).collect()).exit_code();
    }
    // The first test that runs starts the peers, so that listing them starts none.
    let world = Arc::default();
    let conclusion = libtest_mimic::run(&arguments, trials(&world));
    // Ends the peers.
    drop(world);
    conclusion.exit_code()
}

fn trials(world: &Arc<OnceLock<World>>) -> Vec<Trial> {
    let trial = |&(name, test): &(&'static str, Test)| {
        let world = Arc::clone(world);
        Trial::test(name, move || {
            test(world.get_or_init(World::start));
            Ok(())
        })
    };
    REMOTE.iter().chain(UPSTREAM).chain(ATTACKS).map(trial).collect()
}
