//! How homeservers read a path: not one way but several, and a road round the front is open if any of them leads out.

use percent_encoding::percent_decode_str;

/// Whether some homeserver would take this path, as it came, for a route on which it asks another server.
pub(crate) fn leads_out(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let segments: Vec<String> = path.split('/').skip(1).map(decoded).collect();
    let merged: Vec<String> = segments.iter().filter(|segment| !segment.is_empty()).cloned().collect();
    let whole = decoded(path);
    let split_late: Vec<String> = whole.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
    let readings = [resolved(&merged), resolved(&split_late), segments, merged, split_late];
    readings.iter().any(|reading| is_ours(reading))
}

/// Whether the path has segments of dots in any spelling: what those mean depends on who reads.
pub(crate) fn has_dots(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    decoded(path).split(['/', '\\']).skip(1).any(|segment| segment == "." || segment == "..")
}

/// Whether it has the words of one of the routes, if not all that belongs to it.
pub(crate) fn names_a_route(target: &str) -> bool {
    let path = decoded(target.split('?').next().unwrap_or_default());
    ["publicRooms", "/download", "/thumbnail", "/room"].iter().any(|words| path.contains(words))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn resolved(segments: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for segment in segments {
        match segment.as_str() {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment.clone()),
        }
    }
    kept
}

/// The routes, as Synapse, ruma and this crate have them.
fn is_ours(segments: &[String]) -> bool {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["_matrix", "client", "api", "v1", ref rest @ ..]
        | ["_matrix", "client", "v1" | "r0" | "v3" | "unstable", ref rest @ ..]
            if matches!(*rest, ["publicRooms"] | ["directory", "room", _, ..]) =>
        {
            true
        }
        ["_matrix", "client", "v1", "media", "download" | "thumbnail", _, _, ..]
        | ["_matrix", "client", "unstable", _, "media", "download" | "thumbnail", _, _, ..]
        | ["_matrix", "media", "v1" | "r0" | "v3", "download" | "thumbnail", _, _, ..] => true,
        _ => false,
    }
}

#[test]
fn the_readings_know_a_road_when_they_see_one() {
    for out in [
        "/_matrix/client/v3/publicRooms?server=a",
        "//_matrix/client/v3/%70ublicRooms",
        "/_matrix/client/v3/x/../publicRooms",
        "/_matrix/client/v3/directory/room/%23a%2F..%2F..%2F..%2Fb:evil.example",
        "/_matrix%2Fmedia/v3/download/a/b",
    ] {
        assert!(leads_out(out), "{out}");
    }
    for stays in
        ["/", "/_matrix/client/versions", "/_matrix/media/v3/upload", "/_matrix/client/v3/directory/list/room/!a"]
    {
        assert!(!leads_out(stays), "{stays}");
    }
    assert!(has_dots("/a/%2e%2E/b") && has_dots("/a%2f.") && !has_dots("/a/.b/..c?d=/../"));
}
