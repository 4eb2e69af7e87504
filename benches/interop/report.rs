//! Markdown, on stdout and in `target/interop/`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// One report, as it grows.
pub(crate) struct Report {
    name: &'static str,
    text: String,
}

impl Report {
    /// Begins with the title and the machine.
    pub(crate) fn begin(name: &'static str, title: &str) -> Self {
        let mut report = Self { name, text: String::new() };
        report.line(&format!("## {title}\n"));
        report.line(&format!("{}\n", machine()));
        report
    }

    /// Shown at once: the runs are long.
    pub(crate) fn line(&mut self, line: &str) {
        println!("{line}");
        writeln!(self.text, "{line}").unwrap();
    }

    /// The heads of a table.
    pub(crate) fn heads(&mut self, heads: &[&str]) {
        self.line("");
        self.row(&heads.iter().map(ToString::to_string).collect::<Vec<_>>());
        self.row(&vec!["---".to_owned(); heads.len()]);
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        self.line(&format!("| {} |", cells.join(" | ")));
    }

    /// Writes the file.
    pub(crate) fn end(self) {
        write(&format!("{}.md", self.name), &self.text);
    }
}

/// A file beside the reports.
pub(crate) fn write(name: &str, text: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("interop");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
    eprintln!("written: {}", folder.join(name).display());
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap().trim().trim_end_matches(" kB");
    let gib = kib.parse::<u64>().unwrap().div_ceil(1024 * 1024);
    let build = if cfg!(debug_assertions) { "A debug build, for trying this out" } else { "Release build" };
    format!("Linux, {cores} cores, {gib} GiB of memory; the load, the peers and what is measured share them. {build}.")
}

/// In milliseconds, with as many digits as say something.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

pub(crate) fn mib(kib: u64) -> String {
    format!("{}", kib.div_ceil(1024))
}
