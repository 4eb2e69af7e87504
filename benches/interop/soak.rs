//! Mixed load for as long as asked, sampled every five seconds: flat, or growing?

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::mix::{Mix, Stream, Token, summed};
use crate::plot::plot;
use crate::report::{self, Report};
use crate::rig::{LOCAL_LIST, MIB, RunLock, Serve, Setup, Stall, Synapse};
use crate::samples::{GROWS, RULE, SERIES, Sample, csv};

const EVERY: Duration = Duration::from_secs(5);
/// When every slot has to be back after the load.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// The stream that needs no other server, and so has no excuse.
const LOCAL: &str = "own room list";
const AWAY_ROOMS: usize = 120;
/// The new files of the fast server, as large as a picture; so the store is full, and pushes old ones out, before a soak of half an
/// hour is warm.
const FILE_BYTES: usize = 150 * 1024;

/// The peers of the load.
struct Peers {
    silent: Stall,
    dripping: Stall,
    huge: Stall,
    fast: Stall,
    away: Synapse,
    home: Synapse,
    _lock: RunLock,
}

impl Peers {
    fn start() -> Self {
        let lock = RunLock::take();
        let away = Synapse::up("load-away", AWAY_ROOMS).wiped_at_the_end();
        let home = Synapse::up("load-home", 20).wiped_at_the_end();
        let remote = |mode| Stall::start(mode, away.tls(), &[]);
        Self {
            silent: remote("never-answer"),
            dripping: remote("body-drip"),
            huge: remote("huge-body"),
            fast: Stall::start("ok", away.tls(), &["--file-bytes", &FILE_BYTES.to_string()]),
            away,
            home,
            _lock: lock,
        }
    }
}

/// Whether everything stayed flat.
pub(crate) async fn run(length: Duration) -> bool {
    let peers = Peers::start();
    let setup = Setup::in_front_of(&peers.home);
    let serve = Serve::start(&setup.quiet().media("legacy_endpoints = true\ncache_size = \"256 MiB\""));
    let began = Instant::now();
    let before = sample(&peers, &serve, began).await;
    let mut mix = load(&peers, &serve);
    let mut samples = Vec::new();
    while began.elapsed() < length {
        mix.assert_runs();
        samples.push(sample(&peers, &serve, began).await);
        let next = EVERY * u32::try_from(samples.len()).unwrap();
        sleep_until(began + next).await;
    }
    let told = mix.told();
    let status = serve.status().await;
    drop(mix);
    let free = every_slot_free(&serve).await;
    // What the last clients left behind is cleaned up.
    sleep(EVERY).await;
    let after = sample(&peers, &serve, began).await;

    let mut report = Report::begin("soak", &format!("Soak: {} minutes of mixed load", length.as_secs() / 60));
    report.line(
        "`serve` in front of a Synapse; remotes are another Synapse, a fast fake, and peers that are silent, drip or send 1 GiB.",
    );
    report.heads(&["every 5 s", "second quarter", "third", "last", "most", "before", "at rest after", "verdict"]);
    let mut flat = true;
    for series in &SERIES {
        let trend = series.trend(&samples);
        flat &= trend.verdict != GROWS;
        let at = |sample: &Sample| shown((series.of)(sample), series.unit);
        let quarters = trend.quarters.map(|median| shown(median, series.unit));
        let most = shown(trend.most, series.unit);
        let mut row = vec![series.name.to_owned()];
        row.extend(quarters);
        row.extend([most, at(&before), at(&after), trend.verdict.to_owned()]);
        report.row(&row);
    }
    report.line(&format!("\n{RULE}"));
    report.heads(&["load", "was told"]);
    for (name, told) in &told {
        report.row(&[(*name).to_owned(), summed(told)]);
    }
    let failed: u64 = told[LOCAL].iter().filter(|(status, _)| **status != 200).map(|(_, times)| times).sum();
    let overruns = status["federation_worker"]["overruns"].as_u64().unwrap();
    report.line(&format!(
        "\n{failed} requests for the {LOCAL} failed; {overruns} calls outlived their deadline; every slot free afterwards: {}.",
        if free { "yes" } else { "no" }
    ));
    let held = flat && free && failed == 0 && overruns == 0;
    report.line(&format!(
        "\nVerdict: **{}**.",
        if held {
            "flat"
        } else if flat {
            "failed"
        } else {
            "grows"
        }
    ));
    report::write("soak.csv", &csv(&samples));
    report::write("soak.svg", &plot(&samples));
    report.end();
    held
}

/// Everybody at once.
fn load(peers: &Peers, serve: &Serve) -> Mix {
    let token = peers.home.access_token.clone();
    let user = Token::One(token.clone());
    let honest = |name, clients, pause_ms, token: &Token| Stream {
        name,
        clients,
        pause: Duration::from_millis(pause_ms),
        token: token.clone(),
        waves: false,
    };
    let hostile = |name, clients, pause_ms| Stream { waves: true, ..honest(name, clients, pause_ms, &Token::None) };
    let list = |server: String| move |number| format!("/_matrix/client/v3/publicRooms?server={server}&since=x{number}");
    let old_file = |server: String| move |number| format!("/_matrix/media/v3/download/{server}/x{number}");
    let file = |kind: &str| peers.away.media[kind].path().to_owned();
    let away = peers.away.server_name.clone();

    let mut mix = Mix::begin(serve.address());
    mix.add(honest(LOCAL, 4, 50, &Token::None), |_| LOCAL_LIST.to_owned());
    mix.add(honest("room list of a Synapse", 2, 300, &Token::None), {
        let away = away.clone();
        move |number| format!("/_matrix/client/v3/publicRooms?server={away}&limit={}", number % 100 + 1)
    });
    mix.add(honest("alias of a Synapse", 2, 300, &user), move |number| {
        format!("/_matrix/client/v3/directory/room/%23page-{:03}:{away}", number % (2 * AWAY_ROOMS))
    });
    let (png, binary) = (file("png"), file("binary"));
    mix.add(honest("small file of a Synapse", 2, 500, &user), {
        let png = png.clone();
        move |_| format!("/_matrix/client/v1/media/download/{png}")
    });
    mix.add(honest("thumbnail of a Synapse", 1, 1_000, &user), move |number| {
        let side = [32, 96, 320][number % 3];
        format!("/_matrix/client/v1/media/thumbnail/{png}?width={side}&height={side}&method=scale")
    });
    mix.add(honest("20 MiB file of a Synapse", 1, 4_000, &user), {
        let binary = binary.clone();
        move |_| format!("/_matrix/client/v1/media/download/{binary}")
    });
    let fast = peers.fast.server_name();
    mix.add(honest("new file of a fast server", 2, 200, &user), move |number| {
        format!("/_matrix/client/v1/media/download/{fast}/new{number}")
    });

    mix.add(hostile("silent room lists", 24, 250), list(peers.silent.server_name()));
    mix.add(hostile("dripping room lists", 8, 250), list(peers.dripping.server_name()));
    mix.add(hostile("huge room lists", 4, 1_000), list(peers.huge.server_name()));
    mix.add(hostile("silent files", 24, 250), old_file(peers.silent.server_name()));
    mix.add(hostile("dripping files", 8, 250), old_file(peers.dripping.server_name()));
    mix.add(hostile("huge files", 2, 5_000), old_file(peers.huge.server_name()));
    mix.add(Stream { token: Token::Forged, ..hostile("forged tokens", 4, 200) }, |number| {
        format!("/_matrix/client/v1/media/download/127.0.0.1:1/x{number}")
    });
    mix.add_slow_readers(8, &format!("/_matrix/client/v1/media/download/{binary}"), &token);
    mix.add_half_requests(8);
    mix
}

async fn sample(peers: &Peers, serve: &Serve, began: Instant) -> Sample {
    let status = serve.status().await;
    let behind_kib = peers.home.process().footprint().map(|footprint| footprint.resident_kib);
    Sample {
        at: began.elapsed(),
        footprint: serve.process().footprint().expect("serve runs"),
        directory: slots(&status, "directory"),
        media: slots(&status, "media"),
        stored: status["media"]["store"]["files"].as_u64().unwrap(),
        behind_kib,
    }
}

fn slots(status: &Value, class: &str) -> u64 {
    status["budgets"][class]["in_flight"].as_u64().unwrap()
}

async fn every_slot_free(serve: &Serve) -> bool {
    let end = Instant::now() + BACK_WITHIN;
    while Instant::now() < end {
        let status = serve.status().await;
        if slots(&status, "directory") + slots(&status, "media") == 0 {
            return true;
        }
        sleep(Duration::from_millis(200)).await;
    }
    false
}

fn shown(value: u64, unit: &str) -> String {
    if unit == "KiB" { format!("{} MiB", (value * 1024).div_ceil(MIB)) } else { value.to_string() }
}
