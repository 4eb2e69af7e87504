//! What a configuration says, and every mistake in it.

use std::time::Duration;

use super::*;
use crate::admission::{MediaCaps, MediaLimits};

mod of_media;
mod of_places;
mod of_rates;
mod of_upstream;

const LEAST: &str = "server_name = \"us.example\"\nsigning_key = \"key\"\n";

fn read(toml: &str) -> Result<Config, Vec<String>> {
    walk::config("p.toml", Path::new("/etc/p"), toml, NamedFiles::NotOpened)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn mistakes(rest: &str) -> Vec<String> {
    read(&format!("{LEAST}{rest}")).unwrap_err()
}

#[test]
fn the_least_that_works_takes_the_documented_defaults() {
    let config = read(LEAST).unwrap();
    assert_eq!(config.listen, "127.0.0.1:8009".parse().unwrap());
    assert_eq!(config.admin_listen, "127.0.0.1:9009".parse().unwrap());
    assert_eq!(config.request_threads, 16);
    assert_eq!(config.ipv6_client_prefix, Ipv6ClientPrefix::default());
    assert_eq!(config.signing_key, SigningKeySource::File("/etc/p/key".into()));
    assert_eq!(config.federation.remote_timeout, None);
    assert!(!config.federation.require_token_for_remote);
    let media = MediaConfig { cache_dir: MediaCacheDir::At("/etc/p/media-cache".into()), ..MediaConfig::default() };
    assert_eq!(config.media, media);
    assert_eq!(media.remote_fetch_enabled, None);
    assert!(!media.policy().remote_fetch_enabled && !media.legacy_endpoints && media.blocked_servers.is_empty());
    assert_eq!((media.max_file_bytes, media.cache_size_bytes), (50 << 20, 1 << 30));
    assert_eq!((media.cache_ttl, media.limits), (Duration::from_secs(24 * 3600), MediaLimits::default()));
    assert_eq!(config.log, LogConfig { level: LogLevel::Info, format: LogFormat::Text });
}

#[test]
fn every_key_is_read() {
    let config = read(
        r##"
server_name = "us.example"
signing_key = "/var/key"
listen = "[::1]:0"
admin_listen = "127.0.0.1:9010"
admin_allow_remote = true
request_threads = 8
trusted_proxies = ["10.0.0.0/8", "::1"]
ipv6_client_prefix = 56
[[rooms]]
room_id = "!a:us.example"
name = "A"
topic = "t"
canonical_alias = "#a:us.example"
num_joined_members = 3
world_readable = true
guest_can_join = true
join_rule = "public"
avatar_url = "mxc://us.example/a"
room_type = "m.space"
[[aliases]]
alias = "#a:US.example:8448"
room_id = "!a:us.example"
[[aliases]]
alias = "#b:us.example"
room_id = "!b:us.example"
servers = ["them.example"]
[[tokens]]
token = "secret"
user_id = "@alice:us.example"
[media]
remote_fetch_enabled = true
legacy_endpoints = true
blocked_servers = ["spam.example", "them.example:8449"]
max_file = "20 MiB"
cache_dir = "cache"
cache_size = "40 MiB"
cache_ttl = "7 d"
max_in_flight = 32
max_per_client = 16
max_running = 8
max_running_per_origin = 4
fetches_per_minute = 120
fetch_burst = 32
[federation]
remote_timeout = "5 s"
require_token_for_remote = true
lookups_per_minute = 30
lookup_burst = 5
extra_ca_file = "ca.pem"
nameservers = ["192.0.2.1", "[2001:db8::1]:5353"]
deny_networks = ["203.0.113.0/24"]
allow_networks = ["10.1.2.3"]
[log]
level = "debug"
format = "json"
"##,
    )
    .unwrap();
    assert_eq!(config.request_threads, 8);
    assert_eq!(config.trusted_proxies, ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
    assert_eq!(config.rooms[0].num_joined_members, 3);
    assert_eq!(config.rooms[0].room_type.as_deref(), Some("m.space"));
    let servers = |index: usize| config.aliases[index].servers.join(",");
    assert_eq!((servers(0), servers(1)), ("us.example".into(), "them.example".into()));
    assert_eq!(config.aliases[0].local_part, "a");
    assert_eq!(config.tokens[0].user_id, "@alice:us.example");
    let media = &config.media;
    assert!(media.policy().remote_fetch_enabled && media.legacy_endpoints);
    assert_eq!(media.blocked_servers, ["spam.example".parse().unwrap(), "them.example:8449".parse().unwrap()]);
    assert_eq!((media.max_file_bytes, media.cache_size_bytes), (20 << 20, 40 << 20));
    assert_eq!(media.cache_dir, MediaCacheDir::At("/etc/p/cache".into()));
    assert_eq!(media.cache_ttl, Duration::from_secs(7 * 24 * 3600));
    assert_eq!(
        media.limits,
        MediaLimits::new(MediaCaps {
            max_in_flight: 32,
            max_per_client: 16,
            max_running: 8,
            max_running_per_origin: 4
        })
        .unwrap()
    );
    assert_eq!(config.federation.remote_timeout, RemoteTimeout::new(Duration::from_secs(5)).ok());
    assert_eq!(config.federation.extra_ca_file, Some("/etc/p/ca.pem".into()));
    assert_eq!(config.federation.nameservers, ["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:5353".parse().unwrap()]);
    assert_eq!(config.federation.allow_networks, ["10.1.2.3/32".parse().unwrap()]);
    assert_eq!(config.log, LogConfig { level: LogLevel::Debug, format: LogFormat::Json });
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn all_mistakes_are_told_at_once_each_with_file_line_and_key() {
    let toml = "server_name = \"127.1\"\nrequest_threads = 1\nlisten = 8009\ncolour = 3\n\
                trusted_proxies = [\n  \"10.0.0.0/8\",\n  \"10.0.0.1/8\",\n]\n\
                [federation]\nremote_timeout = \"0 s\"\nretries = 3\n[[tokens]]\ntoken = \"a b\"\n";
    let told = read(toml).unwrap_err();
    let starts = [
        "p.toml:1: server_name: ",
        "p.toml:2: request_threads: a pool of 1 ",
        "p.toml:3: listen: ",
        "p.toml:4: colour: there is no such key",
        "p.toml:7: trusted_proxies[1]: \"10.0.0.1/8\" has host bits set; write \"10.0.0.0/8\"",
        "p.toml:10: federation.remote_timeout: no time at all",
        "p.toml:11: federation.retries: there is no such key",
        "p.toml:13: tokens[0].token: ",
        "p.toml:13: tokens[0].user_id: this key is missing",
        "p.toml: signing_key: this key is missing",
    ];
    assert_eq!(told.len(), starts.len(), "{told:#?}");
    for (line, start) in told.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} should start with {start:?}");
    }
}

#[test]
fn of_a_file_that_is_no_toml_the_syntax_errors_alone_are_told_by_line() {
    let told = read("server_name = \"us.example\"\nlisten = \n= 3\nrequest_threads = 0\ncolour = 3\n").unwrap_err();
    let starts: Vec<_> = told.iter().map(|line| line.split_inclusive(' ').next().unwrap()).collect();
    assert_eq!(starts, ["p.toml:2: ", "p.toml:3: "], "no other mistake, nothing missing: {told:?}");
    for torn in ["[log\nlevel = \"info\"", "server_name = \"us.example\nlisten = 3", "tokens = [{token = \"a\""] {
        let told = read(torn).unwrap_err();
        assert!(!told.is_empty() && told.iter().all(|line| !line.contains("key")), "{torn}: {told:?}");
    }
}

#[test]
fn a_wrong_type_is_told_with_what_was_expected_and_what_was_found() {
    for (line, told) in [
        ("listen = 8009", "listen: expected \"IP:port\" in quotes such as \"127.0.0.1:8009\", found the number 8009"),
        (
            "request_threads = \"16\"",
            "request_threads: expected a whole number from 2 to 256 without quotes, found the text \"16\"",
        ),
        (
            "ipv6_client_prefix = true",
            "ipv6_client_prefix: expected a whole number from 1 to 128 without quotes, found true",
        ),
        (
            "trusted_proxies = \"::1\"",
            "trusted_proxies: expected a list in brackets such as [\"…\", \"…\"], found the text \"::1\"",
        ),
        (
            "trusted_proxies = [\"::1\", 3]",
            "trusted_proxies[1]: expected an address or a network in quotes such as \"10.0.0.0/8\", found the number 3",
        ),
        (
            "federation.remote_timeout = 5",
            "federation.remote_timeout: expected a duration in quotes such as \"5 s\" (units: ms, s, min, h, d, w), found the number 5",
        ),
        (
            "federation.require_token_for_remote = \"yes\"",
            "federation.require_token_for_remote: expected true or false without quotes, found the text \"yes\"",
        ),
        (
            "federation.extra_ca_file = []",
            "federation.extra_ca_file: expected a path in quotes such as \"signing.key\", found a list",
        ),
        (
            "federation.nameservers = [1.5]",
            "federation.nameservers[0]: expected \"IP\" or \"IP:port\" in quotes, found the number 1.5",
        ),
        ("log.level = {}", "log.level: expected a level in quotes such as \"info\", found a table"),
        (
            "rooms = [{ room_id = \"!a\" }, { room_id = \"!b\", name = 3 }]",
            "rooms[1].name: expected text in quotes, found the number 3",
        ),
    ] {
        assert_eq!(mistakes(line), [format!("p.toml:3: {told}")]);
    }
}

#[test]
fn an_unknown_key_is_told_with_the_one_that_was_meant() {
    assert_eq!(
        mistakes("request_treads = 8"),
        ["p.toml:3: request_treads: there is no such key; did you mean request_threads?"]
    );
    assert_eq!(
        mistakes("[[rooms]]\nroom_id = \"!a\"\n[[rooms]]\nroom_id = \"!b\"\nnme = \"B\""),
        ["p.toml:7: rooms[1].nme: there is no such key; did you mean name?"]
    );
    assert_eq!(
        mistakes("media.colour = 3"),
        ["p.toml:3: media.colour: there is no such key; known here: remote_fetch_enabled, legacy_endpoints, \
             blocked_servers, max_file, cache_size, cache_dir, cache_ttl, max_in_flight, max_per_client, max_running, \
             max_running_per_origin, fetches_per_minute, fetch_burst"]
    );
    assert_eq!(
        mistakes("media.cache_siez = \"1 GiB\""),
        ["p.toml:3: media.cache_siez: there is no such key; did you mean cache_size?"]
    );
    assert_eq!(
        mistakes("homeserver.colour = 3"),
        ["p.toml:3: homeserver.colour: there is no such key; known here: upstream"]
    );
    let told = mistakes("colour = 3");
    assert!(told[0].contains("log") && told[0].contains("homeserver"), "{told:?}");
}

#[test]
fn the_operators_socket_stays_on_this_machine() {
    for address in ["0.0.0.0:9009", "[::]:9009", "192.0.2.1:9009", "[2001:db8::1]:0"] {
        let told = mistakes(&format!("admin_listen = \"{address}\""));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("p.toml:3: admin_listen: {address} can be reached from other machines")));
    }
    for address in ["127.0.0.2:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
        assert!(read(&format!("{LEAST}admin_listen = \"{address}\"")).is_ok(), "{address}");
    }
}

#[test]
fn the_operators_socket_leaves_this_machine_where_the_file_says_so_in_so_many_words() {
    let open = |allowed: &str| read(&format!("{LEAST}admin_listen = \"0.0.0.0:9009\"\nadmin_allow_remote = {allowed}"));
    assert_eq!(open("true").unwrap().admin_listen, "0.0.0.0:9009".parse().unwrap());
    let told = open("false").unwrap_err();
    assert!(told.len() == 1 && told[0].contains("admin_allow_remote = true"), "{told:?}");
    let told = open("\"yes\"").unwrap_err();
    assert!(told.len() == 2 && told[1].starts_with("p.toml:4: admin_allow_remote: expected true or false"), "{told:?}");
}

#[test]
fn t08_no_limit_is_read_as_unlimited() {
    for line in [
        "request_threads = 0",
        "request_threads = 1",
        "request_threads = 257",
        "request_threads = -1",
        "request_threads = \"16\"",
        "request_threads = 16.0",
        "request_threads = 99999999999999999999",
        "ipv6_client_prefix = 0",
        "ipv6_client_prefix = 129",
        "federation.remote_timeout = \"0 s\"",
        "federation.remote_timeout = \"0 ms\"",
        "federation.remote_timeout = \"5\"",
        "federation.remote_timeout = 5",
        "federation.remote_timeout = \"-5 s\"",
        "federation.remote_timeout = \"5 sec\"",
        "media.max_file = \"0 B\"",
        "media.max_file = \"0 MiB\"",
        "media.max_file = 50",
        "media.max_file = \"50 MB\"",
        "media.cache_size = \"0 GiB\"",
        "media.cache_size = \"-1 GiB\"",
        "media.max_file = \"1 B\"\nmedia.cache_size = \"1023 KiB\"",
        "media.cache_ttl = \"0 h\"",
        "media.cache_ttl = \"24\"",
        "media.max_in_flight = 0",
        "media.max_per_client = 0",
        "media.max_running = 0",
        "media.max_running_per_origin = 0",
        "media.max_running_per_origin = -1",
        "media.max_in_flight = 4097",
        "media.max_in_flight = \"64\"",
    ] {
        let told = mistakes(line);
        assert_eq!(told.len(), 1, "{line}: {told:?}");
        assert!(told[0].starts_with(&format!("p.toml:{}: ", 2 + line.lines().count())), "{line}: {told:?}");
    }
    assert_eq!(read(&format!("{LEAST}request_threads = 2")).unwrap().request_threads, 2);
    assert_eq!(read(&format!("{LEAST}request_threads = 0x100")).unwrap().request_threads, 256);
}

#[test]
fn a_network_rule_that_is_not_exact_is_refused() {
    for (key, rule) in [
        ("trusted_proxies", "10.0.0.1/8"),
        ("trusted_proxies", "0.0.0.0/0"),
        ("trusted_proxies", "::/0"),
        ("trusted_proxies", "::ffff:10.0.0.0/104"),
        ("trusted_proxies", "proxy.example"),
        ("trusted_proxies", "10.0.0.0/33"),
        ("federation.deny_networks", "10.0.0.1/8"),
        ("federation.deny_networks", "010.0.0.0/8"),
        ("federation.deny_networks", "10.0.0.0/08"),
        ("federation.deny_networks", "10.0.0.0/+8"),
        ("federation.deny_networks", "10/8"),
        ("federation.deny_networks", "::ffff:10.0.0.1"),
        ("federation.allow_networks", "2001:db8::1/64"),
        ("federation.allow_networks", ""),
        ("federation.nameservers", "dns.example"),
        ("federation.nameservers", "192.0.2.1:0"),
    ] {
        let told = mistakes(&format!("{key} = [\"{rule}\"]"));
        assert_eq!(told.len(), 1, "{rule}: {told:?}");
        assert!(told[0].starts_with(&format!("p.toml:3: {key}[0]: ")), "{told:?}");
    }
}

#[test]
fn the_embedded_data_is_checked() {
    for (toml, key) in [
        ("[[rooms]]\nroom_id = \"a\"", "rooms[0].room_id"),
        ("[[rooms]]\nroom_id = \"!a\"\n[[rooms]]\nroom_id = \"!a\"", "rooms[1].room_id"),
        ("[[rooms]]\nroom_id = \"!a\"\nnum_joined_members = -1", "rooms[0].num_joined_members"),
        ("[[rooms]]\nroom_id = \"!a\"\nsize = 3", "rooms[0].size"),
        ("[[aliases]]\nalias = \"#a:them.example\"\nroom_id = \"!a\"", "aliases[0].alias"),
        ("[[aliases]]\nalias = \"#a:us.example\"", "aliases[0].room_id"),
        ("[[tokens]]\ntoken = \"a\"\nuser_id = \"alice\"", "tokens[0].user_id"),
        ("[[tokens]]\ntoken = \"a\"\nuser_id = \"@a:them.example\"", "tokens[0].user_id"),
        ("[[tokens]]\ntoken = \"\"\nuser_id = \"@a:us.example\"", "tokens[0].token"),
        ("[rooms]\nroom_id = \"!a\"", "rooms"),
        ("federation = 3", "federation"),
        ("admin_listen = \"127.0.0.1:8009\"", "admin_listen"),
    ] {
        let told = mistakes(toml);
        assert_eq!(told.len(), 1, "{toml}: {told:?}");
        assert!(told[0].contains(&format!(": {key}: ")), "{told:?}");
    }
}

#[test]
fn a_doubled_token_is_refused_without_being_shown() {
    let twice = "[[tokens]]\ntoken = \"hush\"\nuser_id = \"@a:us.example\"\n";
    let told = mistakes(&format!("{twice}{twice}"));
    assert!(told[0].starts_with("p.toml:7: tokens[1].token: "), "{told:?}");
    assert!(!told[0].contains("hush"));
    let told = mistakes("[[tokens]]\ntoken = 5417\nuser_id = \"@a:us.example\"\n");
    assert!(told[0].starts_with("p.toml:4: tokens[0].token: ") && !told[0].contains("5417"), "{told:?}");
}

#[test]
fn what_stops_nothing_is_warned_about_with_its_line() {
    let warned = |rest: &str| -> Vec<String> {
        read(&format!("{LEAST}{rest}")).unwrap().warnings().iter().map(ToString::to_string).collect()
    };
    let said = "media.remote_fetch_enabled = false\n";
    assert_eq!(
        warned(""),
        ["p.toml: media.remote_fetch_enabled: not set, so remote media is off; write true or false"]
    );
    assert_eq!(warned(said), Vec::<String>::new());
    for timeout in ["10 s", "1 min"] {
        assert_eq!(
            warned(&format!("{said}federation.remote_timeout = \"{timeout}\"")),
            [
                "p.toml:4: federation.remote_timeout: has no effect: lookups end after 10 s anyway; write less, such as \"5 s\""
            ]
        );
    }
    assert!(warned(&format!("{said}federation.remote_timeout = \"9999 ms\"")).is_empty());
    let on = "[[tokens]]\ntoken = \"t\"\nuser_id = \"@a:us.example\"\n[media]\nremote_fetch_enabled = true\n";
    for (timeout, told) in [
        ("10 s", None),
        ("29 s", None),
        (
            "30 s",
            Some("has no effect: lookups end after 10 s and files after 30 s anyway; write less, such as \"5 s\""),
        ),
    ] {
        let told: Vec<_> = told.iter().map(|told| format!("p.toml:9: federation.remote_timeout: {told}")).collect();
        assert_eq!(warned(&format!("{on}[federation]\nremote_timeout = \"{timeout}\"")), told, "{timeout}");
    }
    assert_eq!(
        warned("[media]\nremote_fetch_enabled = true\n"),
        ["p.toml:4: media.remote_fetch_enabled: files are for those with a token alone, and there are no [[tokens]]"]
    );
    assert!(warned("[media]\nremote_fetch_enabled = true\nlegacy_endpoints = true\n").is_empty());
    assert_eq!(
        warned(&format!("{said}media.legacy_endpoints = true")),
        ["p.toml:4: media.legacy_endpoints: has no effect: remote media is off (remote_fetch_enabled = false)"]
    );
    let room = "[[rooms]]\nroom_id = \"!a\"\n";
    let alias = |name: &str, room: &str| format!("[[aliases]]\nalias = \"#{name}:us.example\"\nroom_id = \"{room}\"\n");
    assert_eq!(
        warned(&format!("{said}{room}{}{}", alias("a", "!a"), alias("b", "!b"))),
        ["p.toml:11: aliases[1].room_id: no [[rooms]] has the id \"!b\""]
    );
}

#[test]
fn without_a_file_the_name_is_one_that_cannot_exist_elsewhere() {
    let config = Config::without_file();
    assert_eq!(config.server_name.as_str(), "portcullis.localhost");
    assert_eq!(config.signing_key, SigningKeySource::ThrowAway);
}

#[test]
fn an_empty_table_and_a_key_of_too_many_parts_have_a_line_too() {
    let told = mistakes("[[rooms]]\nroom_id = \"!a\"\n[[rooms]]\n[[tokens]]\n");
    assert!(told.iter().any(|told| told.starts_with("p.toml:5: rooms[1].room_id: ")), "{told:?}");
    assert!(told.iter().any(|told| told.starts_with("p.toml:6: tokens[0].token: ")), "{told:?}");
    let told = mistakes(&format!("{} = 1\nlisten = 1\n", ["a"; 200].join(".")));
    assert!(told[0].starts_with("p.toml:3: recursion limit"), "{told:?}");
}

#[test]
fn what_the_file_says_cannot_forge_a_line_of_ours() {
    let told = mistakes("\"bad\\u001b[31mkey\\nfake:1: ok\\u202e\" = 1\n").join("|");
    assert!(told.contains("bad\\u{1b}[31mkey\\nfake"), "{told}");
    assert!(!told.contains(char::is_control) && !told.contains('\u{202e}'), "{told}");
}

#[cfg(unix)]
#[test]
fn a_named_file_has_to_be_one_and_has_a_size() {
    for endless in ["/dev/zero", "/"] {
        let rest = format!("[federation]\nextra_ca_file = \"{endless}\"\n");
        let text = format!("server_name = \"us.example\"\nsigning_key = \"{endless}\"\n{rest}");
        let told = walk::config("p.toml", Path::new("/etc/p"), &text, NamedFiles::Checked).unwrap_err();
        let told: Vec<_> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.iter().filter(|line| line.contains("it is not a regular file")).count(), 2, "{told:?}");
    }
}
