//! A homeserver with its own pool of request threads, and what silent servers do to it: nothing.
//!
//! ```text
//! cargo run --example sync_pool                             # rehearses it on loopback; some 5 s
//! cargo run --example sync_pool -- --one-call               # the same for a homeserver without a lock
//! cargo run --example sync_pool -- --listen 127.0.0.1:8018  # and goes on serving, for curl
//! ```
//!
//! Four threads, so two lookups in flight. Two clients ask a server that takes requests and never answers; a third is
//! refused at once, and everything local goes on. When the deadline has passed, lookups work again.
//!
//! What to look at: `homeserver.rs`, from the request to the answer. `pool.rs` and `http1.rs` stand for what a homeserver has
//! already.

pub(crate) mod homeserver;
mod http1;
#[path = "../loopback/mod.rs"]
#[expect(dead_code, reason = "not each of these servers is asked here")]
mod loopback;
mod pool;
pub(crate) mod rehearsal;

use std::process::ExitCode;

use homeserver::Way;

const USAGE: &str = "\
usage: sync_pool [--one-call] [--listen ADDRESS]

  --one-call        handles requests by handle_blocking, not under a lock by begin and finish_blocking
  --listen ADDRESS  serves there, and goes on serving after the rehearsal (a free port of 127.0.0.1)";

fn main() -> ExitCode {
    let (mut way, mut address, mut stays) = (Way::Halves, "127.0.0.1:0".to_owned(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), argument == "--listen") {
            ("--one-call", _) => way = Way::OneCall,
            (_, true) => match arguments.next() {
                Some(chosen) => (address, stays) = (chosen, true),
                None => return usage(),
            },
            ("--help", _) => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            _ => return usage(),
        }
    }
    let rehearsed = rehearsal::World::start(way, &address).and_then(|world| {
        let seen = world.rehearse()?;
        for step in &seen {
            println!("{step}");
        }
        if way == Way::Halves {
            println!("requests that asked another server, as counted under the lock: {}", world.errands());
        }
        if stays {
            println!("serving on http://{}; another server is {}", world.address(), world.other_server());
            loop {
                std::thread::park();
            }
        }
        Ok(seen.iter().all(rehearsal::Seen::is_as_promised))
    });
    match rehearsed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
