//! A long-poll behind the load gate: it takes no slot, and waits only while the homeserver is known to be down.
//!
//! ```text
//! cargo run --example long_poll -- http://127.0.0.1:8008 TOKEN 5
//! ```
//!
//! Follows `/sync` for so many polls (3 unless told otherwise). A poll is meant to sit at the homeserver, so its time
//! says nothing and never raises the limit; its failure counts like any other. Where a long-poll is the only caller left,
//! it is the probe that finds the homeserver well again.

mod matrix;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use matrix::{Homeserver, outcome};
use portcullis::gate::{GateKey, GateRegistry};
use portcullis::limits::LONG_POLL_SERVER_WAIT;
use serde_json::Value;

const USAGE: &str = "\
usage: long_poll BASE_URL ACCESS_TOKEN [POLLS]

Follows /sync for so many polls (3). The homeserver may let each of them wait for 30 s.";

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
    let polls: u32 = arguments.next().as_deref().unwrap_or("3").parse()?;
    let server = Homeserver::new(&base_url, &access_token)?;
    let gate = GateRegistry::default().gate(&GateKey::from_base_url(&base_url)?)?;
    let server_waits = LONG_POLL_SERVER_WAIT.as_millis().to_string();
    let filter = r#"{"room":{"timeline":{"limit":1}},"presence":{"not_types":["*"]}}"#;
    let mut since: Option<String> = None;
    for poll in 1..=polls {
        let mut query = vec![("filter", filter), ("timeout", server_waits.as_str())];
        query.extend(since.as_deref().map(|since| ("since", since)));
        #[expect(clippy::disallowed_methods, reason = "the time it took is for a reader")]
        let asked = Instant::now();
        let answer = gate.long_poll(|| server.get(&["sync"], &query), outcome).await;
        let status = gate.status();
        let gate_now = format!("breaker {:?}, limit {}, {} held", status.breaker.state, status.limit, status.held);
        match answer {
            Ok(Ok(news)) => {
                let rooms = news.pointer("/rooms/join").and_then(Value::as_object).map_or(0, serde_json::Map::len);
                println!("poll {poll}: {rooms} rooms after {:.1} s; {gate_now}", asked.elapsed().as_secs_f64());
                since = news.pointer("/next_batch").and_then(Value::as_str).map(str::to_owned);
            }
            Ok(Err(error)) if matches!(error, matrix::CallError::Status(status) if status.is_client_error()) => {
                return Err(error.into());
            }
            // The next poll waits at the gate if this was the sign to.
            Ok(Err(error)) => println!("poll {poll}: {error}; {gate_now}"),
            Err(timeout) => println!("poll {poll}: {timeout}; {gate_now}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
