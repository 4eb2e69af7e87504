//! `portcullis.service` before systemd's own checker, and its figures beside those of the program.

use std::fs;
use std::process::Command;
use std::time::Duration;

use portcullis::ClientOutboundProxyPolicy;
use portcullis::homeserver::descriptors::{Descriptors, OutboundNeeds};
use portcullis::homeserver::listener::ListenerLimits;
use portcullis::media::MediaLimits;

use super::contrib;
use super::program::is_there;

const PROGRAM: &str = "/usr/local/bin/portcullis";
/// Most that `systemd-analyze security` may find exposed, in tenths of its points, of 100; a service without any hardening
/// has 96.
const EXPOSED_AT_MOST: &str = "20";

fn unit() -> String {
    fs::read_to_string(contrib("portcullis.service")).unwrap()
}

/// The last value of a setting.
fn value(setting: &str) -> String {
    let unit = unit();
    let mut found = unit.lines().rev().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    found.next().unwrap_or_else(|| panic!("{setting} is not set")).to_owned()
}

#[test]
fn systemd_finds_nothing_wrong_and_little_exposed() {
    if !is_there("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("portcullis.service");
    // The checker looks whether the program is there.
    fs::write(&path, unit().replace(PROGRAM, "/bin/true")).unwrap();
    let verify = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = [verify.stdout, verify.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    // Of other units, and of the machine, it has its own opinion.
    let about_it: Vec<_> = said.lines().filter(|line| line.contains("portcullis.service")).collect();
    assert_eq!(about_it, [""; 0]);

    let threshold = format!("--threshold={EXPOSED_AT_MOST}");
    let security = Command::new("systemd-analyze").args(["security", "--offline=true", &threshold]).arg(&path).output();
    let security = security.unwrap();
    assert!(security.status.success(), "{}", String::from_utf8(security.stdout).unwrap());
}

#[test]
fn it_starts_what_there_is_and_waits_for_what_it_says() {
    assert_eq!(value("Type"), "notify");
    assert_eq!(value("ExecStart"), format!("{PROGRAM} serve --config /etc/portcullis/portcullis.toml"));
    let help = Command::new(env!("CARGO_BIN_EXE_portcullis")).args(["serve", "--help"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--config <FILE>"));
    // Otherwise it is killed over a file that would have come.
    let patience = Duration::from_secs(value("TimeoutStopSec").parse().unwrap());
    assert!(patience > ListenerLimits::default().drain_time);
}

#[test]
fn its_limit_of_open_files_has_room_for_the_largest_pool_and_all_clients() {
    let limit = value("LimitNOFILE").parse().unwrap();
    let clients = ListenerLimits::default().max_connections;
    let needs = OutboundNeeds::of(ClientOutboundProxyPolicy::for_pool(256), Some(MediaLimits::default()));
    assert_eq!(Descriptors::limited_to(limit).client_connections(clients, needs), Ok(clients));
}
