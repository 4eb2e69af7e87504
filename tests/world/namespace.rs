//! The private network: a test binary runs itself again inside namespaces of its own, as root or not.
//!
//! Every address of both families is local there, so whatever is dialled is answered, or refused, inside; nothing can leave.
//! The machine's resolv.conf and hosts file are covered by ones that lead astray whoever reads more of them than the name
//! server's address.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, ExitStatus, Output};

/// Set for the run inside.
const INSIDE: &str = "PORTCULLIS_TEST_WORLD";
/// What [`INSIDE`] holds when the network is set up already: for a child of the run inside.
const READY: &str = "ready";

/// The search list of the machine's own resolv.conf.
pub(crate) const SEARCH_DOMAIN: &str = "corp.example";
/// A name that only the machine's own hosts file knows, and where it leads.
pub(crate) const ONLY_IN_HOSTS: (&str, Ipv4Addr) = ("portal", Ipv4Addr::new(10, 0, 0, 8));
/// Where the hosts file leads for the names that the DNS knows too.
pub(crate) const ASTRAY: Ipv4Addr = Ipv4Addr::new(10, 66, 66, 66);
const ALSO_IN_HOSTS: &str = "alpha.example beta.example hs.beta.example srv1.gamma.example intranet";

/// A name server at this address is the only one there is.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Everything the run inside needs, in a throw-away namespace.
const PROBE: &str = "ip link set lo up && ip route add local default dev lo && ip -6 route add local default dev lo \
                     && mount --bind /etc/hosts /etc/resolv.conf";

pub(crate) enum Entered {
    /// This process is inside.
    Inside,
    /// The tests have run inside, in a child.
    Ran(ExitStatus),
    /// This machine gives no namespaces.
    Unavailable(String),
}

/// Enters the private network, by running this binary again with the same arguments. To be called first thing in `main`.
pub(crate) fn enter() -> Entered {
    match env::var(INSIDE).as_deref() {
        Ok(READY) => return Entered::Inside,
        Ok(_) => {
            set_up();
            return Entered::Inside;
        }
        Err(_) => {}
    }
    match Command::new("unshare").args(["-rnm", "sh", "-c", PROBE]).output() {
        Err(error) => return Entered::Unavailable(format!("unshare: {error}")),
        Ok(probe) if !probe.status.success() => return Entered::Unavailable(words(&probe)),
        Ok(_) => {}
    }
    let status = Command::new("unshare")
        .args(["-rnm", "--"])
        .arg(env::current_exe().unwrap())
        .args(env::args_os().skip(1))
        .env(INSIDE, "to be set up")
        .status();
    Entered::Ran(status.unwrap())
}

/// Whether this process is the child of [`again`].
pub(crate) fn is_child() -> bool {
    env::var(INSIDE).as_deref() == Ok(READY)
}

/// A command that runs one test of this binary again, in the same network, with another environment.
pub(crate) fn again(test: &str) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test]).env(INSIDE, READY);
    child
}

fn set_up() {
    run("ip", &["link", "set", "lo", "up"]);
    for family in ["-4", "-6"] {
        run("ip", &[family, "route", "add", "local", "default", "dev", "lo"]);
    }
    // Lets a fake take an IPv6 address that no interface has; with IPv4 the route is enough.
    fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").unwrap();
    cover(
        "/etc/resolv.conf",
        &format!("search {SEARCH_DOMAIN}\noptions ndots:5 timeout:1 attempts:1\nnameserver {NAME_SERVER}\n"),
    );
    let (name, address) = ONLY_IN_HOSTS;
    cover("/etc/hosts", &format!("127.0.0.1 localhost\n::1 localhost\n{address} {name}\n{ASTRAY} {ALSO_IN_HOSTS}\n"));
}

/// Puts a file with this text over another, for this namespace alone.
fn cover(path: &str, text: &str) {
    let file = env::temp_dir().join(format!("portcullis-world-{}", std::process::id()));
    fs::write(&file, text).unwrap();
    run("mount", &["--bind", file.to_str().unwrap(), path]);
    fs::remove_file(file).unwrap();
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", words(&output));
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
