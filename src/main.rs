//! The `portcullis` binary.

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  portcullis serve                                  try it: an embedded homeserver on 127.0.0.1:8009
  curl 'http://127.0.0.1:8009/_matrix/client/v3/publicRooms?server=matrix.org&limit=3'

  portcullis keygen signing.key                     a key for a server of your own
  portcullis check-config portcullis.toml           every mistake at once, with its line
  portcullis serve --config portcullis.toml
  curl http://127.0.0.1:9009/v1/status              what is in flight, what was refused

  portcullis resolve matrix.org                     where a server name leads, step by step
  portcullis demo                                   one attack, rehearsed on this machine

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
    /// Answer clients: room lists, aliases and files, here and at other servers.
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
  listen = \"127.0.0.1:8009\"
  admin_listen = \"127.0.0.1:9009\"
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
  [federation]
  # remote_timeout = \"5 s\"
  require_token_for_remote = false
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
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve { config } => commands::serve::run(config.as_deref()),
        Command::CheckConfig { file } => commands::check_config::run(&file),
        Command::Keygen { file } => commands::keygen::run(&file),
        Command::Resolve { name, json, config } => commands::resolve_name(&name, json, config.as_deref()),
        Command::Demo { json } => commands::demo::run(json),
    }
}
