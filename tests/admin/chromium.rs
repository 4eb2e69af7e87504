//! A browser without a window, and without a network but loopback.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// When a browser is given up on. Only a test that fails waits this long.
const LONG: Duration = Duration::from_secs(120);

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

pub(crate) struct Chromium {
    program: &'static str,
}

impl Chromium {
    /// `None`, and loudly so, where there is none. In CI that is a failure.
    pub(crate) async fn find() -> Option<Self> {
        for program in NAMES {
            let said = Command::new(program).arg("--version").stderr(Stdio::null()).output().await;
            if said.is_ok_and(|said| said.status.success()) {
                return Some(Self { program });
            }
        }
        // Not by a macro: what those write is kept back unless the test fails.
        let told = "!!! No Chromium on this machine (apt-get install chromium).\n\
                    !!! What the status page looks like in a browser, and that no stranger's script runs in it, IS NOT TESTED.\n";
        io::stderr().write_all(told.as_bytes()).unwrap();
        assert!(env::var_os("CI").is_none(), "CI is set, so this is a failure");
        None
    }

    /// The page as it is once `for_ms` have passed on the browser's own clock, which runs ahead when nothing is awaited.
    pub(crate) async fn dom(&self, url: &str, for_ms: u32, more: &[&str]) -> String {
        let budget = format!("--virtual-time-budget={for_ms}");
        let arguments = [&["--dump-dom", budget.as_str()], more].concat();
        String::from_utf8(self.run(url, &arguments).await).unwrap()
    }

    /// A picture of it, as PNG.
    pub(crate) async fn screenshot(&self, url: &str, for_ms: u32, file: &Path, more: &[&str]) {
        let (budget, to) = (format!("--virtual-time-budget={for_ms}"), format!("--screenshot={}", file.display()));
        let arguments = [&[budget.as_str(), to.as_str(), "--hide-scrollbars"], more].concat();
        self.run(url, &arguments).await;
    }

    async fn run(&self, url: &str, arguments: &[&str]) -> Vec<u8> {
        let profile = tempfile::tempdir().unwrap();
        let browser = Command::new(self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(url)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .output();
        let done = tokio::time::timeout(LONG, browser).await.unwrap().unwrap();
        assert!(done.status.success(), "{done:?}");
        done.stdout
    }
}
