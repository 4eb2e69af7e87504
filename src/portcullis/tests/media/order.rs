//! What is asked first, and what is therefore never looked up.

use super::*;
use crate::admission::{DestinationRules, DestinationVerdict};

fn untouched() -> FakeOrigin {
    FakeOrigin::new(|_| panic!("nothing may be fetched"))
}

/// Judges by name, and keeps count.
#[derive(Default)]
struct Rules(AtomicUsize);

impl DestinationRules for Rules {
    fn judge(&self, destination: &ServerName) -> DestinationVerdict {
        self.0.fetch_add(1, Ordering::SeqCst);
        match destination.as_str() {
            "bad.example" => DestinationVerdict::Forbidden,
            "unseen.example" => DestinationVerdict::Hidden,
            _ => DestinationVerdict::Allowed,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r01_r02_r04_the_switch_is_off_unless_set_and_then_nothing_is_touched() {
    let rig = Rig::new(untouched());
    let rules = Arc::new(Rules::default());
    let off = builder(8, &FakeRemote::new(|_| panic!("nothing may be asked")))
        .remote_media(Box::new(rig.origin.clone()))
        .media_store(rig.store())
        .legacy_media(true)
        .destination_rules(Arc::<Rules>::clone(&rules))
        .build()
        .unwrap();
    for (counted, path) in (1..).zip(paths("them.example")) {
        assert_eq!(begun(&off, 1, &request(&path)).await.unwrap().outcome(), (404, "M_NOT_FOUND"), "{path}");
        assert_eq!(off.status().media.refused_by_switch, counted);
    }
    assert_eq!((rig.origin.calls(), rules.0.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(std::fs::read_dir(rig.dir.path()).unwrap().count(), 0, "no store is opened");
    assert_eq!(off.status().media.store, None);
}

#[tokio::test(start_paused = true)]
async fn r05_r06_allow_remote_is_honoured_on_every_route_though_a_copy_is_stored() {
    let rig = Rig::new(FakeOrigin::new(|_| Does::Give(CAT)));
    let portcullis = rig.portcullis();
    let routes = paths("them.example");
    for path in &routes {
        let allowed = format!("{path}{}allow_remote=true", if path.contains('?') { '&' } else { '?' });
        assert!(fetch(&portcullis, 1, &request(&allowed)).await.is(CAT), "{allowed}");
    }
    assert_eq!(rig.origin.calls(), 2, "one file, one thumbnail");
    for (counted, path) in (1..).zip(&routes) {
        for refused in ["false", "0", "", "TRUE", "true&allow_remote=false"] {
            let path = format!("{path}{}allow_remote={refused}", if path.contains('?') { '&' } else { '?' });
            assert_eq!(begun(&portcullis, 1, &request(&path)).await.unwrap().outcome(), (404, "M_NOT_FOUND"), "{path}");
        }
        assert_eq!(portcullis.status().media.refused_by_switch, counted * 5);
    }
    assert_eq!(rig.origin.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn r10_br36_own_files_are_answered_here_under_every_spelling_and_never_looked_for_elsewhere() {
    let rig = Rig::new(untouched());
    let portcullis = rig.portcullis();
    for own in ["us.example", "US.example", "us.example:8448", "us.example%3A8448"] {
        let found = begun(&portcullis, 1, &file(own, "ours")).await.unwrap();
        assert!(found.is(CAT), "{own}");
        for path in
            paths(own).into_iter().chain([format!("/_matrix/media/v3/download/{own}/abc/x.png?allow_remote=true")])
        {
            let missing = begun(&portcullis, 1, &request(&path)).await.unwrap();
            assert_eq!(missing.outcome(), (404, "M_NOT_FOUND"), "r12 {path}");
        }
    }
    assert_eq!(portcullis.status().media.refused_by_switch, 0);
    let Begun::Answer(answer) = portcullis.begin(&Gallery, address(1), &file("us.example", "ours")).unwrap() else {
        panic!()
    };
    assert_eq!(answer.headers()["content-disposition"], "inline; filename=\"own.png\"");
    let again = with(file("us.example", "ours"), "if-none-match", answer.headers()["etag"].to_str().unwrap());
    assert_eq!(begun(&portcullis, 1, &again).await.unwrap().status, 304);
    assert!(begun(&portcullis, 1, &file("us.example:8449", "ours")).await.is_err(), "another server's");
}

#[tokio::test(start_paused = true)]
async fn each_check_comes_before_the_next() {
    let rig = Rig::new(FakeOrigin::new(|file| match file.media_id.as_str() {
        "none" => Does::SayAfter(Duration::ZERO, MediaCallError::NotFound),
        _ => Does::Give(CAT),
    }));
    let rules = Arc::new(Rules::default());
    let limits =
        MediaLimits::new(MediaCaps { max_in_flight: 1, max_per_client: 1, max_running: 1, max_running_per_origin: 1 })
            .unwrap();
    let portcullis = rig
        .builder()
        .destination_rules(Arc::<Rules>::clone(&rules))
        .blocked_media_servers(["blocked.example".parse().unwrap()])
        .media_limits(limits)
        .require_token_for_remote(true)
        .build()
        .unwrap();
    for known in ["stored", "none"] {
        let _ = fetch(&portcullis, 1, &file("them.example", known)).await;
    }
    let judged = rules.0.load(Ordering::SeqCst);
    let Err(held) = begun(&portcullis, 1, &file("them.example", "held")).await else { panic!() };
    let etag = FileKeyOf("them.example", "fresh").etag();
    let anonymous = |path: &str| get(path);
    let v1 = "/_matrix/client/v1/media/download";
    let v3 = "/_matrix/media/v3/download";
    for (asked, outcome, judges) in [
        (anonymous(&format!("{v1}/127.1/abc")), (400, "M_INVALID_PARAM"), 0),
        (anonymous(&format!("{v1}/us.example/a.b")), (400, "M_INVALID_PARAM"), 0),
        (anonymous(&format!("{v1}/us.example/ours")), (401, "M_MISSING_TOKEN"), 0),
        (anonymous(&format!("{v3}/us.example/ours")), (200, ""), 0),
        (anonymous(&format!("{v3}/them.example/abc?allow_remote=false")), (401, "M_MISSING_TOKEN"), 0),
        (file("bad.example", "abc?allow_remote=false"), (404, "M_NOT_FOUND"), 0),
        (file("bad.example", "abc"), (403, "M_FORBIDDEN"), 1),
        (file("unseen.example", "abc"), (404, "M_NOT_FOUND"), 1),
        (file("BLOCKED.example:8448", "abc"), (404, "M_NOT_FOUND"), 1),
        (file("them.example", "none"), (404, "M_NOT_FOUND"), 1),
        (with(file("them.example", "fresh"), "if-none-match", &etag), (304, ""), 1),
        (file("them.example", "fresh"), (429, "M_LIMIT_EXCEEDED"), 1),
    ] {
        let before = rules.0.load(Ordering::SeqCst);
        let answer = begun(&portcullis, 1, &asked).await.unwrap();
        assert_eq!(answer.outcome(), outcome, "{asked:?}");
        assert_eq!(rules.0.load(Ordering::SeqCst), before + judges, "{asked:?}");
    }
    // Stored: no slot is needed, so the full budget is in nobody's way.
    assert!(fetch(&portcullis, 1, &file("them.example", "stored")).await.is(CAT));
    assert_eq!((rig.origin.calls(), judged), (2, 2));
    drop(held);
    at_rest(&portcullis).await;
}

/// The key of a file, as clients see it.
struct FileKeyOf(&'static str, &'static str);

impl FileKeyOf {
    fn etag(&self) -> String {
        use crate::admission::RemoteFile;
        use crate::proxy::media_store::FileKey;
        let file = RemoteFile { server: self.0.parse().unwrap(), media_id: self.1.parse().unwrap() };
        FileKey::new(&file, MediaVariant::Download).etag().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn paths_without_a_token_are_off_unless_set_and_ask_nothing_then() {
    let rig = Rig::new(untouched());
    let portcullis = rig.builder().legacy_media(false).build().unwrap();
    for path in paths("them.example").iter().chain(&paths("us.example")).filter(|path| path.contains("/_matrix/media/"))
    {
        assert_eq!(begun(&portcullis, 1, &get(path)).await.unwrap().outcome(), (404, "M_NOT_FOUND"), "{path}");
    }
    assert_eq!(portcullis.status().media.refused_by_switch, 0);
    let unknown = with(file("us.example", "ours"), "authorization", "Bearer bad");
    assert_eq!(begun(&portcullis, 1, &unknown).await.unwrap().outcome(), (401, "M_UNKNOWN_TOKEN"));
    let open = rig_open();
    assert!(begun(&open.1, 1, &get("/_matrix/media/r0/download/them.example/abc")).await.is_err());
}

fn rig_open() -> (Rig, Portcullis) {
    let rig = Rig::new(untouched());
    let open = rig.portcullis();
    (rig, open)
}

#[tokio::test(start_paused = true)]
async fn files_are_read_and_nothing_else() {
    let (_rig, portcullis) = rig_open();
    for path in paths("them.example") {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let mut other = request(&path);
            *other.method_mut() = method;
            assert!(portcullis.begin(&Gallery, address(1), &other).is_none(), "{other:?}");
        }
        let mut preflight = get(&path);
        *preflight.method_mut() = Method::OPTIONS;
        assert_eq!(begun(&portcullis, 1, &preflight).await.unwrap().status, 200);
    }
    for other in ["/_matrix/client/v1/media/config", "/_matrix/media/v3/upload", "/_matrix/media/v3/preview_url?url=x"]
    {
        assert!(portcullis.begin(&Gallery, address(1), &request(other)).is_none(), "{other}");
    }
}

#[test]
fn what_contradicts_itself_is_not_built() {
    let rig = Rig::new(untouched());
    let bare =
        || builder(8, &FakeRemote::new(|_| panic!())).remote_media(Box::new(rig.origin.clone())).remote_fetch(ON);
    assert!(matches!(bare().build(), Err(BuildError::NoMediaStore)));
    let small = MediaStoreConfig { bytes: 1024, ..rig.store() };
    assert!(matches!(bare().media_store(small).build(), Err(BuildError::MediaStore(_))));
}
