//! Mistakes of a configuration: each is one clear line, with its place, at `check-config` and at `serve` alike.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use crate::{Serving, configured, directory, run, told};

#[test]
fn without_the_switch_serve_and_check_config_warn_and_with_it_they_do_not() {
    let directory = configured("switch", "");
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(checked.status.code(), Some(0));
    assert!(told(&checked).contains("remote_fetch_enabled"));
    let directory = configured("switch-set", "[media]\nremote_fetch_enabled = false\n");
    assert_eq!(told(&run(&["check-config", "portcullis.toml"], &directory)), "");
}

#[test]
fn check_config_looks_at_the_place_for_files_and_makes_nothing() {
    let token = "[[tokens]]\ntoken = \"t\"\nuser_id = \"@a:us.example\"\n";
    let directory = configured("cache-dir", &format!("media.remote_fetch_enabled = true\n{token}"));
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!((checked.status.code(), told(&checked)), (Some(0), String::new()));
    assert!(!directory.join("media-cache").exists());
    fs::write(directory.join("media-cache"), "").unwrap();
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(checked.status.code(), Some(2));
    let (told, start) = (told(&checked), "portcullis: portcullis.toml:5: media.cache_dir: media-cache: not a folder");
    assert!(told.lines().count() == 1 && told.starts_with(start), "{told}");
}

#[test]
fn a_key_that_is_not_there_is_the_homeservers_own_where_there_is_one_behind() {
    let directory = directory("whose-key");
    let toml = |key: &str, more: &str| format!("server_name = \"us.example\"\nsigning_key = \"{key}\"\n{more}");
    let behind = "[homeserver]\nupstream = \"http://127.0.0.1:8008\"\n[media]\nremote_fetch_enabled = false\n";
    let alone = "[media]\nremote_fetch_enabled = false\n";
    let (service, torn) = ("/run/credentials/portcullis.service/signing.key", "portcullis.toml");
    for (key, more, advice) in [
        ("missing", alone, "(portcullis keygen makes one)"),
        (torn, alone, "(portcullis keygen makes one)"),
        ("missing", behind, "(it is the homeserver's own: signing_key_path in homeserver.yaml says where)"),
        (torn, behind, "(it is the homeserver's own: signing_key_path in homeserver.yaml says where)"),
        (service, behind, "(systemd keeps it there only while the service runs)"),
    ] {
        fs::write(directory.join("portcullis.toml"), toml(key, more)).unwrap();
        for command in [&["check-config", "portcullis.toml"][..], &["serve", "--config", "portcullis.toml"]] {
            let ended = run(command, &directory);
            let told = told(&ended);
            assert_eq!(ended.status.code(), Some(2), "{told}");
            assert!(told.starts_with(&format!("portcullis: portcullis.toml:2: signing_key: {key} ")), "{told}");
            assert!(told.trim_end().ends_with(advice), "{advice}: {told}");
        }
    }
}

#[test]
fn each_mistake_is_one_clear_line_and_status_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let head = "server_name = \"us.example\"\nadmin_listen = \"127.0.0.1:0\"\n";
    let key = "signing_key = \"key\"\n";
    let free = "listen = \"127.0.0.1:0\"\n";
    let more_key = format!("{head}{free}{key}");
    for (what, toml, line) in [
        ("no-key", format!("{head}{free}signing_key = \"missing\"\n"), "4: signing_key: missing cannot be read: "),
        (
            "bad-key",
            format!("{head}{free}signing_key = \"portcullis.toml\"\n"),
            "4: signing_key: portcullis.toml is not usable: ",
        ),
        ("taken", format!("{head}{key}listen = \"{taken}\"\n"), &format!("4: listen: cannot listen on {taken}: ")),
        ("pool", format!("{more_key}request_threads = 1\n"), "5: request_threads: a pool of 1 "),
        ("zero", format!("{more_key}request_threads = 0\n"), "5: request_threads: "),
        (
            "ca",
            format!("{more_key}federation.extra_ca_file = \"key\"\n"),
            "5: federation.extra_ca_file: key: there is no cert",
        ),
        (
            "no-ca",
            format!("{more_key}federation.extra_ca_file = \"ca\"\n"),
            "5: federation.extra_ca_file: ca cannot be read: ",
        ),
        (
            "upstream",
            format!("{more_key}homeserver.upstream = \"http://[::1]/\"\n"),
            "5: homeserver.upstream: nothing may follow ",
        ),
        (
            "admin",
            format!("server_name = \"us.example\"\n{key}{free}admin_listen = \"0.0.0.0:0\"\n"),
            "4: admin_listen: 0.0.0.0:0 can be reached ",
        ),
    ] {
        let directory = configured(&format!("mistake-{what}"), "");
        let toml = format!("{toml}media.remote_fetch_enabled = false\n");
        fs::write(directory.join("portcullis.toml"), toml).unwrap();
        let output = run(&["serve", "--config", "portcullis.toml"], &directory);
        assert_eq!(output.status.code(), Some(2), "{what}");
        let line = format!("portcullis: portcullis.toml:{line}");
        assert!(told(&output).starts_with(&line), "{what}: {}", told(&output));
        assert_eq!(told(&output).lines().count(), 1, "{what}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{what}");
    }
}

#[test]
fn a_front_before_itself_does_not_start() {
    let directory = configured("circle", "");
    let serve = |upstream: &str, [listen, admin]: [&str; 2]| {
        let head = "server_name = \"us.example\"\nsigning_key = \"key\"\nmedia.remote_fetch_enabled = false\n";
        let sockets = format!("listen = \"{listen}\"\nadmin_listen = \"{admin}\"\n");
        let toml = format!("{head}{sockets}homeserver.upstream = \"{upstream}\"\n");
        fs::write(directory.join("portcullis.toml"), toml).unwrap();
        run(&["serve", "--config", "portcullis.toml"], &directory)
    };
    let is_told = |output: &Output, key: &str| {
        let start = format!("portcullis: portcullis.toml:6: homeserver.upstream: this is our own {key}: ");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert!(told(output).starts_with(&start) && told(output).lines().count() == 1, "{}", told(output));
    };
    // By address it is seen before a socket is bound.
    is_told(&serve("http://127.0.0.1:8009", ["127.0.0.1:8009", "127.0.0.1:0"]), "listen");
    is_told(&serve("http://[::ffff:127.0.0.1]:9009", ["127.0.0.1:0", "127.0.0.1:9009"]), "admin_listen");
    // By name, once both are. A port that was free a moment ago may be somebody else's by then.
    let by_name = || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let own = format!("127.0.0.1:{port}");
        let output = serve(&format!("http://localhost:{port}"), [&own, "127.0.0.1:0"]);
        (!told(&output).contains("cannot listen on")).then_some(output)
    };
    is_told(&(0..20).find_map(|_| by_name()).unwrap(), "listen");
}

#[test]
fn both_sockets_that_cannot_be_had_are_told_at_once() {
    let taken = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let [clients, operator] = taken.each_ref().map(|taken| taken.local_addr().unwrap());
    let directory = configured("both-taken", "");
    let head = "server_name = \"us.example\"\nsigning_key = \"key\"\nmedia.remote_fetch_enabled = false\n";
    fs::write(
        directory.join("portcullis.toml"),
        format!("{head}listen = \"{clients}\"\nadmin_listen = \"{operator}\"\n"),
    )
    .unwrap();
    let output = run(&["serve", "--config", "portcullis.toml"], &directory);
    assert_eq!(output.status.code(), Some(2));
    let told = told(&output);
    assert!(
        told.contains("portcullis.toml:4: listen: ") && told.contains("portcullis.toml:5: admin_listen: "),
        "{told}"
    );
}

#[test]
fn check_config_and_serve_tell_the_same_everything_at_once() {
    let wrong = "request_threads = 1\ncolour = 3\nfederation.remote_timeout = \"0 s\"\n\
                 federation.extra_ca_file = \"none\"\nmedia.remote_fetch_enabled = true\nmedia.cache_dir = \"key/in\"\n\
                 media.max_in_flight = 0\nmedia.max_running = 8\nmedia.cache_size = \"99 MiB\"\n";
    let directory = configured("everything", wrong);
    fs::write(directory.join("key"), "ed25519 nothing\n").unwrap();
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    let served = run(&["serve", "--config", "portcullis.toml"], &directory);
    assert_eq!((checked.status.code(), served.status.code()), (Some(2), Some(2)));
    assert_eq!(told(&checked), told(&served));
    let told = told(&checked);
    let starts = [
        "2: signing_key: key is not usable: ",
        "5: request_threads: ",
        "6: colour: ",
        "7: federation.remote_timeout: ",
        "8: federation.extra_ca_file: none cannot be read: ",
        "10: media.cache_dir: ",
        "11: media.max_in_flight: 0 lets nothing through",
        "12: media.max_running: max_running_per_origin is over max_running: ",
        "13: media.cache_size: max_file is 50 MiB (the default) and cache_size is 99 MiB, which do not fit",
    ];
    assert_eq!(told.lines().count(), starts.len(), "{told}");
    for (line, start) in told.lines().zip(starts) {
        assert!(line.starts_with(&format!("portcullis: portcullis.toml:{start}")), "{line}");
    }
}

#[test]
fn check_config_warns_of_what_stops_nothing() {
    let alias = "[[aliases]]\nalias = \"#a:us.example\"\nroom_id = \"!a:us.example\"\n";
    let rest = format!("media.remote_fetch_enabled = false\nfederation.remote_timeout = \"10 s\"\n{alias}");
    let directory = configured("warnings", &rest);
    fs::set_permissions(directory.join("key"), fs::Permissions::from_mode(0o640)).unwrap();
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!(checked.status.code(), Some(0));
    let told = told(&checked);
    let starts = [
        "2: signing_key: key is open to others (mode 640)",
        "9: aliases[0].room_id: ",
        "6: federation.remote_timeout: has no effect",
    ];
    assert_eq!(told.lines().count(), starts.len(), "{told}");
    for (line, start) in told.lines().zip(starts) {
        assert!(line.starts_with(&format!("portcullis: warning: portcullis.toml:{start}")), "{line}");
    }
    let _serving = Serving::start(&directory);
    let log = fs::read_to_string(directory.join("log")).unwrap();
    assert_eq!(log.matches(" WARN ").count(), starts.len(), "{log}");
}

#[test]
fn the_least_that_works_in_the_help_is_accepted_without_a_word() {
    let directory = configured("least", "");
    let help = String::from_utf8(run(&["serve", "--help"], &directory).stdout).unwrap();
    let least = help.split_once("the least that works:\n").unwrap().1.split_once("\n\n").unwrap().0;
    fs::copy(directory.join("key"), directory.join("signing.key")).unwrap();
    fs::write(directory.join("portcullis.toml"), least).unwrap();
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!((checked.status.code(), told(&checked)), (Some(0), String::new()));
    let others = help.split_once("with their defaults:\n").unwrap().1;
    assert!(others.contains("# homeserver.upstream = \"http://"), "{others}");
    fs::write(directory.join("portcullis.toml"), format!("{least}\n{others}")).unwrap();
    let checked = run(&["check-config", "portcullis.toml"], &directory);
    assert_eq!((checked.status.code(), told(&checked)), (Some(0), String::new()));
}
