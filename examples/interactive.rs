//! Calls that users wait for: they never wait at the load gate, and tell it how they fared.
//!
//! ```text
//! cargo run --example interactive -- http://127.0.0.1:8008 TOKEN
//! ```
//!
//! Ten calls at once, as from ten browsers, next to background work at the same homeserver. When the homeserver struggles
//! (stop it with `kill -STOP` before), they all time out together, and background work is halved once, not ten times.

mod matrix;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use matrix::{Homeserver, outcome};
use portcullis::gate::{BackgroundCaller, GateKey, GateRegistry};
use serde_json::Value;
use tokio::task::JoinSet;

const USAGE: &str = "\
usage: interactive BASE_URL ACCESS_TOKEN

Ten calls at once, as from ten browsers, next to background work at the same homeserver.";

const CALLS: usize = 10;
/// The deadline of a call that a user waits for, of this program's choosing.
const DEADLINE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| matches!(first.as_str(), "-h" | "--help")) {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(base_url), Some(access_token)) = (arguments.next(), arguments.next()) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    let server = Homeserver::new(&base_url, &access_token)?;
    let key = GateKey::from_base_url(&base_url)?;
    let gates = GateRegistry::default();

    // A user's call never makes a gate: before there is background work there is nobody to tell, and that is counted.
    drop(one_call(&gates, &key, &server).await);
    println!("before there is a gate: {} reports that nobody heard", gates.unheard_reports());

    let gate = gates.gate(&key)?;
    let caller = BackgroundCaller::UpstreamRoomProbe;
    let ask = || server.get(&["joined_rooms"], &[]);
    match gate.call(caller, ask, outcome).await {
        Ok(Ok(rooms)) => {
            let rooms = rooms.pointer("/joined_rooms").and_then(Value::as_array).map_or(0, Vec::len);
            println!("background: {rooms} rooms");
        }
        Ok(Err(error)) => println!("background: {error}"),
        Err(not_answered) => println!("background: {not_answered}"),
    }
    println!("limit {} before the users' calls", gate.status().limit);

    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let (gates, key, server) = (gates.clone(), key.clone(), server.clone());
        calls.spawn(async move { one_call(&gates, &key, &server).await });
    }
    let answers = calls.join_all().await;
    for told in &answers {
        println!("user: {told}");
    }
    let status = gate.status();
    println!("limit {} after them, breaker {:?}, {} held", status.limit, status.breaker.state, status.held);
    Ok(ExitCode::SUCCESS)
}

async fn one_call(gates: &GateRegistry, key: &GateKey, server: &Homeserver) -> String {
    // Taken before the call: a call that started before the latest decrease tells of the same trouble.
    let start = gates.interactive(key);
    let call = server.get(&["account", "whoami"], &[]);
    match start.run_within(DEADLINE, call, outcome).await {
        Ok(Ok(answer)) => answer.pointer("/user_id").and_then(Value::as_str).unwrap_or("nobody").to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(timeout) => timeout.to_string(),
    }
}
