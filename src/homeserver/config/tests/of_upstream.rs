//! What `[homeserver]` may say, and what may not stand beside it.

use super::*;

#[test]
fn an_upstream_is_read_and_absent_means_the_embedded_homeserver() {
    let config = read(&format!("{LEAST}[homeserver]\nupstream = \"http://127.0.0.1:8008\"\n")).unwrap();
    assert_eq!(config.upstream.unwrap().to_string(), "http://127.0.0.1:8008");
    assert_eq!(read(LEAST).unwrap().upstream, None);
    assert_eq!(read(&format!("{LEAST}[homeserver]\n")).unwrap().upstream, None);
}

#[test]
fn what_is_no_origin_is_refused_with_what_to_write() {
    for (written, told) in [
        ("\"127.0.0.1:8008\"", "it has to begin with http:// or https://; write an origin"),
        ("\"http://127.0.0.1:8008/\"", "nothing may follow the host and the port"),
        ("\"http://user:secret@127.0.0.1\"", "a user or a password has no place in it"),
        ("\"http://127.1:8008\"", "the host or the port is not valid: looks like an IPv4 address"),
        ("8008", "expected an origin in quotes"),
    ] {
        let mistakes = mistakes(&format!("homeserver.upstream = {written}"));
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].starts_with(&format!("p.toml:3: homeserver.upstream: {told}")), "{mistakes:?}");
        assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
    }
    let mistakes = mistakes("[homeserver]\nupsteam = \"http://127.0.0.1:8008\"");
    assert_eq!(mistakes, ["p.toml:4: homeserver.upsteam: there is no such key; did you mean upstream?"]);
}

#[test]
fn an_upstream_that_is_one_of_our_own_sockets_is_a_mistake() {
    for (rest, listener) in [
        ("homeserver.upstream = \"http://127.0.0.1:8009\"", "listen"),
        ("homeserver.upstream = \"http://127.0.0.1:9009\"", "admin_listen"),
        ("homeserver.upstream = \"http://[::1]:80\"\nlisten = \"[::1]:80\"", "listen"),
    ] {
        let mistakes = mistakes(rest);
        let told = format!("p.toml:3: homeserver.upstream: this is our own {listener}: ");
        assert!(mistakes.len() == 1 && mistakes[0].starts_with(&told), "{mistakes:?}");
    }
}

#[test]
fn the_embedded_homeservers_data_has_no_place_beside_it() {
    let embedded = "[[rooms]]\nroom_id = \"!a\"\n[[aliases]]\nalias = \"#a:us.example\"\nroom_id = \"!a\"\n[[tokens]]\ntoken \
                    = \"t\"\nuser_id = \"@a:us.example\"\n";
    assert!(read(&format!("{LEAST}{embedded}")).is_ok());
    let mistakes = mistakes(&format!("homeserver.upstream = \"http://127.0.0.1:8008\"\n{embedded}"));
    let keys: Vec<_> = mistakes.iter().map(|told| told.split(' ').nth(1).unwrap()).collect();
    assert_eq!(keys, ["rooms:", "aliases:", "tokens:"], "{mistakes:?}");
    assert!(mistakes.iter().all(|told| told.contains("the homeserver behind has its own")), "{mistakes:?}");
}

#[test]
fn tokens_that_leave_the_machine_in_the_clear_are_warned_of() {
    let warned = |upstream: &str| {
        let config = read(&format!("{LEAST}homeserver.upstream = \"{upstream}\"\nmedia.remote_fetch_enabled = true\n"));
        config.unwrap().warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warned("http://10.0.0.1:8008"),
        [
            "p.toml:3: homeserver.upstream: access tokens leave this machine unencrypted; write https://, or see that nobody \
          listens there"
        ]
    );
    for quiet in ["https://10.0.0.1", "http://127.0.0.1:8008", "http://[::1]:8008", "http://synapse:8008"] {
        assert_eq!(warned(quiet), [""; 0], "{quiet}: nor that there are no tokens");
    }
}
