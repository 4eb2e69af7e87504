//! `portcullis simulate` as an operator meets it: the figures, the pictures, one clear line for each mistake.
#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "a helper outside a test function is test code all the same")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// The picture that the README shows.
const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/incident.svg");

fn simulate(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("simulate").args(arguments).current_dir(directory).output().unwrap()
}

/// An empty directory of the test's own.
fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("simulate-{test}"));
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn printed(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    str::from_utf8(&output.stdout).unwrap()
}

fn json_of(arguments: &[&str], test: &str) -> Value {
    serde_json::from_str(printed(&simulate(arguments, &directory(test)))).unwrap()
}

/// The keys of `expected` as they are in `found`.
fn part(found: &Value, expected: &Value) -> Value {
    expected.as_object().unwrap().keys().map(|key| (key.clone(), found[key].clone())).collect()
}

#[test]
fn the_incidents_figures_are_the_records() {
    let told = json_of(&["incident", "--json"], "json");
    let mut admissions = vec![0, 0, 930_000, 1_860_000, 2_790_000, 3_720_000, 4_650_000, 5_640_000];
    admissions.extend((1..=14).map(|later| 5_640_000 + later * 1_830_000));
    assert_eq!(told["admissions_all_timeout_ms"], json!(admissions));
    for (run, expected) in [
        ("ungoverned", json!({"calls": 2111, "abandoned": 1016, "in_flight_mean": 82.59, "in_flight_peak": 129})),
        ("ungoverned", json!({"in_flight_peak_at_ms": 18_064_657, "request_hours": 806.01, "received": 1095})),
        ("gate", json!({"calls": 44, "abandoned": 44, "in_flight_mean": 3.68, "in_flight_peak": 7})),
        ("gate", json!({"in_flight_peak_at_ms": 3_720_000, "request_hours": 33.68})),
        ("gate_if_all_work_is_longest", json!({"in_flight_mean": 10.58, "in_flight_peak": 18})),
    ] {
        assert_eq!(part(&told[run], &expected), expected, "{run}");
    }
    let minutes = ["p10", "p50", "p90", "max"].map(|rank| &told["ungoverned"]["work_left_minutes"][rank]);
    assert_eq!(minutes.map(|minutes| format!("{:.1}", minutes.as_f64().unwrap())), ["3.0", "18.0", "132.0", "144.0"]);
    let gate = &told["gate"];
    let steps = [(0, 2), (30_000, 1), (960_000, 0)].map(|(at_ms, limit)| json!({"at_ms": at_ms, "limit": limit}));
    assert_eq!(gate["limit"], json!(steps));
    assert_eq!(gate["holds"][2], json!({"from_ms": 960_000, "until_ms": 1_860_000}));
    let opened = json!({"state": "open", "from_ms": 960_000, "to_ms": 1_860_000, "reopened": 0});
    assert_eq!(gate["breaker"][0], opened);
    assert_eq!(told["overload"]["gate"]["an_hour_later"]["abandoned"], 0);
    assert!(told["overload"]["ungoverned"]["failing_for_ms"].as_u64().unwrap() > 3_600_000);
}

#[test]
fn the_table_shows_both_runs_side_by_side() {
    let output = simulate(&["incident"], &directory("table"));
    let shown = printed(&output);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let all = rows.iter().find(|row| row.first() == Some(&"all")).unwrap();
    assert_eq!(all[1..], ["2111", "1016", "82.59", "129", "44", "44", "3.68", "7"]);
    let hours = rows.iter().filter(|row| row.get(9) == Some(&"limit")).count();
    assert_eq!(hours, 9, "{shown}");
    assert!(shown.contains("  0:31:00    0:46:30    1:02:00    1:17:30    1:34:00\n"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 120 && line.trim_end() == line, "{line:?}");
    }
}

#[test]
fn an_outages_recovery_is_told_to_the_millisecond() {
    let told = json_of(&["outage", "--json"], "outage");
    assert_eq!((&told["kind"], &told["noticed_after_ms"]), (&json!("silent"), &json!(1_500_840)));
    let limit: Vec<_> = told["gate"]["limit"].as_array().unwrap().iter().map(|step| step["at_ms"].clone()).collect();
    assert_eq!(limit[3..], [9_300_840, 9_309_240, 9_313_440, 9_316_800].map(|at: u64| json!(at)));
    assert_eq!(told["calls_while_down"], json!({"ungoverned": 1040, "gate": 9}));
    let output = simulate(&["outage", "--minutes", "10", "--refusing"], &directory("outage-text"));
    let shown = printed(&output);
    assert!(shown.contains("0:10:00  the homeserver is well again\n 0:15:00.500  the breaker lets one call through"));
}

#[test]
fn the_readmes_picture_is_the_one_the_command_draws() {
    let directory = directory("picture");
    printed(&simulate(&["incident", "--plot", "incident.svg"], &directory));
    let drawn = fs::read_to_string(directory.join("incident.svg")).unwrap();
    assert!(
        drawn == fs::read_to_string(PICTURE).unwrap(),
        "contrib/incident.svg is out of date: portcullis simulate incident --plot contrib/incident.svg"
    );
    for said in ["<title", "1,016 given up; mean 82.6, peak 129", "mean 3.7, peak 7", "hours:minutes", "slots held"] {
        assert!(drawn.contains(said), "{said}");
    }
}

#[cfg(feature = "png")]
#[test]
fn a_picture_in_pixels_has_the_size_it_should_and_is_not_blank() {
    let directory = directory("pixels");
    for what in ["incident", "outage"] {
        let file = format!("{what}.PNG");
        printed(&simulate(&[what, "--json", "--plot", &file], &directory));
        let png = resvg::tiny_skia::Pixmap::load_png(directory.join(file)).unwrap();
        assert_eq!((png.width(), png.height()), (2400, 1600));
        // Text is where the title stands; a picture without its font has none there.
        let dark = |left: u32, top: u32, right: u32, bottom: u32| {
            let places = (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y)));
            places.filter(|(x, y)| png.pixel(*x, *y).unwrap().red() < 100).count()
        };
        assert!(dark(48, 40, 1000, 90) > 2000, "{what}: no title");
        assert_eq!(dark(0, 0, 40, 1600), 0, "{what}: something stands in the margin");
    }
}

#[test]
fn each_mistake_is_one_clear_line() {
    let directory = directory("mistakes");
    for (file, status, line) in [
        ("incident.jpg", 2, "portcullis: incident.jpg: a picture is a file that ends in .svg or .png\n"),
        ("incident", 2, "portcullis: incident: a picture is a file that ends in .svg or .png\n"),
        ("nowhere/incident.svg", 1, "portcullis: nowhere/incident.svg cannot be written: "),
    ] {
        let output = simulate(&["incident", "--plot", file], &directory);
        assert_eq!(output.status.code(), Some(status), "{file}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.starts_with(line) && told.lines().count() == 1, "{file}: {told}");
        assert_eq!(output.stdout.is_empty(), status == 2, "a usage error is told before anything is rehearsed");
    }
    for wrong in [&["outage", "--minutes", "0"][..], &["outage", "--minutes", "601"], &["flood"], &[]] {
        assert_eq!(simulate(wrong, &directory).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn help_teaches() {
    let directory = directory("help");
    for what in ["incident", "outage"] {
        let output = simulate(&[what, "--help"], &directory);
        let help = printed(&output);
        assert!(help.contains("Examples:") && help.contains("--plot <FILE>"), "{help}");
    }
}
