//! What `[media]` may say, and where files may be kept.

use super::*;

#[test]
fn numbers_of_media_that_contradict_each_other_are_told_with_both() {
    for (rest, told) in [
        (
            "media.max_in_flight = 32",
            vec![
                "3: media.max_in_flight: max_per_client is over max_in_flight: max_per_client is 64 (the default), \
                 max_in_flight is 32",
                "3: media.max_in_flight: max_running is over max_in_flight: max_running is 64 (the default), \
                 max_in_flight is 32",
            ],
        ),
        (
            "media.max_running = 8\nmedia.max_running_per_origin = 9",
            vec![
                "4: media.max_running_per_origin: max_running_per_origin is over max_running: max_running_per_origin is \
                 9, max_running is 8",
            ],
        ),
        (
            "media.max_per_client = 257",
            vec![
                "3: media.max_per_client: max_per_client is over max_in_flight: max_per_client is 257, max_in_flight is \
                 256 (the default)",
            ],
        ),
        (
            "media.cache_size = \"99 MiB\"",
            vec![
                "3: media.cache_size: max_file is 50 MiB (the default) and cache_size is 99 MiB, which do not fit: the cache has \
                 to hold 2 files of the largest size, one that is read and one that comes",
            ],
        ),
        (
            "media.max_file = \"1 GiB\"\nmedia.cache_size = \"2097151 KiB\"",
            vec![
                "3: media.max_file: max_file is 1 GiB and cache_size is 2097151 KiB, which do not fit: the cache has to hold 2 \
                 files of the largest size, one that is read and one that comes",
            ],
        ),
        // Each pair is judged, whatever is wrong with the other caps.
        (
            "media.max_in_flight = 0\nmedia.max_running = 8",
            vec![
                "3: media.max_in_flight: 0 lets nothing through; \
                 remote_fetch_enabled = false switches remote media off",
                "4: media.max_running: max_running_per_origin is over max_running: max_running_per_origin is 16 (the \
                 default), max_running is 8",
            ],
        ),
        (
            "media.max_in_flight = 32\nmedia.max_per_client = \"all\"\nmedia.max_running_per_origin = 65",
            vec![
                "3: media.max_in_flight: max_running is over max_in_flight: max_running is 64 (the default), \
                 max_in_flight is 32",
                "4: media.max_per_client: expected a whole number from 1 to 4096 without quotes, found the text \"all\"",
                "5: media.max_running_per_origin: max_running_per_origin is over max_running: max_running_per_origin is \
                 65, max_running is 64 (the default)",
            ],
        ),
        // What is no number at all contradicts nothing besides.
        (
            "media.max_in_flight = 0\nmedia.max_per_client = 300",
            vec![
                "3: media.max_in_flight: 0 lets nothing through; \
            remote_fetch_enabled = false switches remote media off",
            ],
        ),
    ] {
        let told: Vec<_> = told.into_iter().map(|line| format!("p.toml:{line}")).collect();
        assert_eq!(mistakes(rest), told, "{rest}");
    }
    assert!(read(&format!("{LEAST}media.max_file = \"1 GiB\"\nmedia.cache_size = \"2 GiB\"\n")).is_ok());
}

#[test]
fn a_blocked_server_is_a_server_name() {
    for name in ["", "*.example", "https://them.example", "127.1", "them.example:0"] {
        let told = mistakes(&format!("media.blocked_servers = [\"ok.example\", \"{name}\"]"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("p.toml:3: media.blocked_servers[1]: "), "{told:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_directory_for_files_is_looked_at_where_it_will_be_used_and_never_made() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = tempfile::tempdir().unwrap();
    let key = crate::outbound::Ed25519Signer::generate("us.example".parse().unwrap()).to_key_file_line();
    std::fs::write(place.path().join("key"), key).unwrap();
    let checked = |rest: &str| {
        let text = format!("{LEAST}[media]\n{rest}\n");
        walk::config("p.toml", place.path(), &text, NamedFiles::Checked)
            .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let config = checked("remote_fetch_enabled = true").unwrap();
    assert_eq!(config.media.cache_dir, MediaCacheDir::At(place.path().join("media-cache")));
    assert!(checked("remote_fetch_enabled = true\ncache_dir = \"a/b/c\"").is_ok());
    let there: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["key"], "looking made something");

    let told = checked("remote_fetch_enabled = true\ncache_dir = \"key\"").unwrap_err();
    let path = place.path().join("key");
    let not_a_folder = format!("p.toml:5: media.cache_dir: {}: not a folder", path.display());
    assert!(told.len() == 1 && told[0].starts_with(&not_a_folder), "{told:?}");
    let told = checked("remote_fetch_enabled = true\ncache_dir = \"key/a\"").unwrap_err();
    assert!(told.len() == 1 && told[0].starts_with("p.toml:5: media.cache_dir: "), "{told:?}");
    // Among the others.
    let told = checked("remote_fetch_enabled = true\ncache_dir = \"key\"\nmax_running = 8\nmax_file = 1").unwrap_err();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(checked("remote_fetch_enabled = false\ncache_dir = \"key\"").is_ok(), "it will not be used");
    std::fs::write(place.path().join("media-cache"), "").unwrap();
    let told = checked("remote_fetch_enabled = true").unwrap_err();
    assert!(told.len() == 1 && told[0].starts_with("p.toml:4: media.cache_dir: "), "{told:?}");

    std::fs::create_dir(place.path().join("shared")).unwrap();
    std::fs::set_permissions(place.path().join("shared"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let told = checked("remote_fetch_enabled = true\ncache_dir = \"shared\"").unwrap_err();
    assert!(told.len() == 1 && told[0].contains("others may write there"), "{told:?}");
    std::fs::create_dir(place.path().join("ours")).unwrap();
    assert!(checked("remote_fetch_enabled = true\ncache_dir = \"ours\"").is_ok());
    assert_eq!(std::fs::read_dir(place.path().join("ours")).unwrap().count(), 0, "looking left something");

    let closed = place.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    // The superuser may write anywhere.
    if tempfile::tempfile_in(&closed).is_err() {
        let told = checked("remote_fetch_enabled = true\ncache_dir = \"closed/a\"").unwrap_err();
        assert!(told[0].contains(&format!("nothing can be made in {}: ", closed.display())), "{told:?}");
    }
}
