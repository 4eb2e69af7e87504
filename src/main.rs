//! The `portcullis` binary.

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  portcullis serve                                  try it: an embedded homeserver on 127.0.0.1:8009
  curl 'http://127.0.0.1:8009/_matrix/client/v3/publicRooms?server=matrix.org&limit=3'
                                                    (502 until other servers can fetch our key under our name)

  portcullis keygen signing.key                     a key for a server of your own
  portcullis check-config portcullis.toml           every mistake at once, with its line
  portcullis serve --config portcullis.toml         in front of your homeserver: homeserver.upstream in that file
  curl http://127.0.0.1:9009/v1/status              what is in flight, what was refused

  portcullis resolve matrix.org                     where a server name leads, step by step
  portcullis demo                                   one attack, rehearsed on this machine
  portcullis simulate incident --plot incident.svg  nine hours with the load gate and without, in a second

Exit status: 0 done, 1 a promise or a lookup failed, 2 usage or configuration.";

/// Keeps the calls a Matrix homeserver makes to other servers from harming either side.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, propagate_version = true, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer clients: room lists, aliases and files of other servers, in front of your homeserver or by itself.
    ///
    /// The first line on standard output is "listening on ADDR, admin on ADDR". SIGTERM and SIGINT end it in an orderly
    /// way: requests in flight are answered first. A second signal cuts them short and ends it at once. With log.level =
    /// "debug" every lookup that fails is a line: at which server, at which step, why. /v1/status counts them.
    #[command(after_help = "\
A configuration file, the least that works:
  server_name = \"example.org\"
  signing_key = \"signing.key\"
  media.remote_fetch_enabled = false

Others, with their defaults:
  # homeserver.upstream = \"http://127.0.0.1:8008\"
  listen = \"127.0.0.1:8009\"
  admin_listen = \"127.0.0.1:9009\"
  admin_allow_remote = false
  request_threads = 16
  trusted_proxies = []
  ipv6_client_prefix = 64
  media.legacy_endpoints = false
  media.blocked_servers = []
  media.max_file = \"50 MiB\"
  media.cache_dir = \"media-cache\"
  media.cache_size = \"1 GiB\"
  media.cache_ttl = \"24 h\"
  media.max_in_flight = 256
  media.max_per_client = 64
  media.max_running = 64
  media.max_running_per_origin = 16
  media.fetches_per_minute = 600
  media.fetch_burst = 300
  [federation]
  # remote_timeout = \"5 s\"
  require_token_for_remote = false
  lookups_per_minute = 60
  lookup_burst = 20
  # extra_ca_file = \"ca.pem\"
  nameservers = []
  deny_networks = []
  allow_networks = []
  [log]
  level = \"info\"
  format = \"text\"")]
    Serve {
        /// The configuration; without one an embedded homeserver with a throw-away key is served on 127.0.0.1.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration file: every mistake at once, with its line.
    CheckConfig {
        /// The configuration.
        file: PathBuf,
    },
    /// Make a signing key, in the format homeservers share. An existing file is never overwritten.
    Keygen {
        /// Where to put it; only its owner will be able to read it.
        file: PathBuf,
    },
    /// Explain where a server name leads, step by step. The destination itself is never dialled.
    #[command(after_help = "\
Examples:
  portcullis resolve matrix.org
  portcullis resolve example.org:8449 --json | jq .addresses")]
    Resolve {
        /// The server name.
        name: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Name servers, certificates and network rules are taken from here.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Rehearse an attack on this machine: 20 strangers make a server ask others that never answer.
    ///
    /// Servers that never answer, answer too slowly, or cannot be looked up must not take more than half of the request
    /// threads, nor slow down anybody else. Real sockets on loopback, no network. The deadline of a lookup is shortened
    /// from 10 s to 2.5 s, so that it takes less than half a minute.
    Demo {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Rehearse the load gate under virtual time: an incident of nine hours takes a second.
    ///
    /// The gate in it is the real one, and nothing is random: every run prints the same. No network, no waiting.
    Simulate {
        #[command(subcommand)]
        what: Simulate,
    },
}

#[derive(Debug, Subcommand)]
enum Simulate {
    /// The incident that the gate was made for, with it and without.
    ///
    /// Two clients fetch the history of a large room for nine hours: 2,111 pages, of which 1,016 are given up after 30 s
    /// while the homeserver goes on working on them. Then the same with a gate in each client, and a homeserver that slows
    /// down under load, after a burst of others' requests.
    #[command(after_help = "\
Examples:
  portcullis simulate incident
  portcullis simulate incident --plot incident.svg
  portcullis simulate incident --json | jq .gate.breaker

In the picture: pages the homeserver is working on at once, without the gate and with it;
the limit of one gate, the slots it holds, its breaker and the calls it lets through.")]
    Incident {
        #[command(flatten)]
        show: Show,
    },
    /// A homeserver that is down for a while: when background work stops, and when it goes on.
    #[command(after_help = "\
Examples:
  portcullis simulate outage
  portcullis simulate outage --minutes 20 --refusing
  portcullis simulate outage --json | jq .noticed_after_ms")]
    Outage {
        /// How long it is down.
        #[arg(long, value_name = "N", default_value_t = 130, value_parser = clap::value_parser!(u16).range(1..=600))]
        minutes: u16,
        /// It answers 503 at once, instead of not at all.
        #[arg(long)]
        refusing: bool,
        #[command(flatten)]
        show: Show,
    },
}

#[derive(Debug, Args)]
struct Show {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Draw it too: .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve { config } => commands::serve::run(config.as_deref()),
        Command::CheckConfig { file } => commands::check_config::run(&file),
        Command::Keygen { file } => commands::keygen::run(&file),
        Command::Resolve { name, json, config } => commands::resolve_name(&name, json, config.as_deref()),
        Command::Demo { json } => commands::demo::run(json),
        Command::Simulate { what: Simulate::Incident { show } } => commands::simulate::incident(&show.into()),
        Command::Simulate { what: Simulate::Outage { minutes, refusing, show } } => {
            commands::simulate::outage(&show.into(), minutes, refusing)
        }
    }
}

impl From<Show> for commands::simulate::Show {
    fn from(Show { json, plot }: Show) -> Self {
        Self { json, plot }
    }
}
