//! The folder that strangers' files lie in.
//!
//! *Attack:* choose a media id, a server or a file name that is a path; plant a link or a file where ours will be; send so
//! much that the disk is full; stop the server in the middle, so that half a file is served as a whole one. *Control:* names
//! are hashes (`src/proxy/media_store/key.rs`), folders and files are for their owner alone and no link is followed
//! (`src/proxy/media_store/folder.rs`), finished and unfinished files share one bound (`src/proxy/media_store/index.rs`), and
//! the end of a file vouches for the rest (`src/proxy/media_store/format.rs`). *Unplug:* make files with mode 644: the first
//! test fails. Let `judge` follow a link: the second. Let `take` of the index take any number of bytes: the third. Let `inspect` trust
//! what it finds: the fourth.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis::BuildError;
use portcullis::media::{MediaStoreConfig, RemoteFetchPolicy};
use tokio::task::JoinSet;

use crate::loopback::media::{MediaHome, ask, download, thumbnail};
use crate::loopback::{World, client};
use crate::rig::media::{below, let_go};
use crate::rig::{Does, Names, Outside, allowing, portcullis};
use crate::support::media::answer_head;
use crate::support::{Behaviour, SentFile, TlsPeer, until};

const KIB: usize = 1024;
const MIB: u64 = 1024 * 1024;

async fn origin(world: &World, bytes: Vec<u8>) -> (TlsPeer, String) {
    let lines = ["Content-Type: image/png", "Content-Disposition: inline; filename=\"../../etc/passwd\""];
    let answer = SentFile { headers: &lines, bytes: &bytes }.answer();
    world.peer("r.example", Behaviour::answers(move |_| answer.clone())).await
}

fn home_in(world: &World, dir: &Path) -> MediaHome {
    world.media_storing(|builder| builder, |store| store.dir = dir.to_owned())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_a_stranger_chose_is_part_of_a_name_and_nobody_else_can_look() {
    let world = World::new().await;
    let (_peer, server) = origin(&world, b"a picture".to_vec()).await;
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("store");
    let home = home_in(&world, &dir);
    for path in [
        download(&server, "con"),
        download(&server, "-rf"),
        download(&server, &"a".repeat(255)),
        format!("{}/..%2f..%2fa.html", download(&server, "lock")),
        thumbnail(&server, "con"),
    ] {
        home.ask(client(1), &path).await.assert_file(b"a picture");
    }
    home.at_rest().await;
    let found = below(outer.path());
    let files = found.iter().filter(|(path, ..)| path.extension().is_some_and(|extension| extension == "media"));
    assert_eq!(files.count(), 5);
    for (path, ..) in &found {
        let mode = std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        let is_dir = path.is_dir();
        assert_eq!(mode, if is_dir { 0o700 } else { 0o600 }, "{}", path.display());
        let name = path.strip_prefix(outer.path()).unwrap().to_str().unwrap();
        let known = match name.split('/').collect::<Vec<_>>()[..] {
            ["store"] | ["store", "lock"] => true,
            ["store", shard] => is_hex(shard, 2),
            ["store", shard, file] => {
                let (hash, rest) = file.split_once('-').unwrap();
                is_hex(hash, 64) && hash.starts_with(shard) && is_hex(rest.strip_suffix(".media").unwrap(), 16)
            }
            _ => false,
        };
        assert!(known, "{name}");
    }
}

fn build_in(dir: &Path) -> Result<(), BuildError> {
    let (names, outside) = (Names::none(), Outside::that(Does::Refuses));
    portcullis(8, names, outside, allowing(&[]))
        .remote_fetch(RemoteFetchPolicy { remote_fetch_enabled: true })
        .media_store(MediaStoreConfig::in_dir(dir))
        .build()
        .map(drop)
}

#[tokio::test]
async fn a_link_that_was_planted_is_refused_at_the_start() {
    let outer = tempfile::tempdir().unwrap();
    let [target, link, root] = ["target", "link", "root"].map(|name| outer.path().join(name));
    std::fs::create_dir(&target).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&target, &link).unwrap();
    assert!(matches!(build_in(&link), Err(BuildError::MediaStore(_))));
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&target, root.join("a0")).unwrap();
    assert!(matches!(build_in(&root), Err(BuildError::MediaStore(_))));
    std::fs::remove_file(root.join("a0")).unwrap();
    build_in(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(build_in(&root), Err(BuildError::MediaStore(_))), "others may write there");
    assert_eq!(below(&target), []);
}

fn on_disk(dir: &Path) -> u64 {
    // A file may go between the list and the question.
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let of = |path: PathBuf| match std::fs::symlink_metadata(&path) {
        Ok(about) if about.is_dir() => on_disk(&path),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(|entry| of(entry.path())).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_strangers_finished_or_not_stay_below_the_bound_at_every_moment() {
    let world = World::new().await;
    let (_peer, server) = origin(&world, vec![b'x'; 300 * KIB]).await;
    let outer = tempfile::tempdir().unwrap();
    let (dir, most) = (outer.path().join("store"), 2 * MIB);
    let home = world
        .media_storing(|builder| builder, |store| (store.dir, store.bytes, store.max_file) = (dir.clone(), most, MIB));
    let over = Arc::new(AtomicBool::new(false));
    let (watched, seen) = (dir.clone(), Arc::clone(&over));
    let watching = tokio::spawn(async move {
        loop {
            if on_disk(&watched) > most {
                seen.store(true, Ordering::SeqCst);
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    let mut asking = JoinSet::new();
    for number in 0..40 {
        let (portcullis, path) = (home.portcullis.clone(), download(&server, &format!("f{number}")));
        asking.spawn(async move { ask(&portcullis, client(number), &path).await });
    }
    for answer in asking.join_all().await {
        // Where there is no room the answer says so, or is cut: never half a file as a whole one.
        assert!(answer.status == 503 || !answer.whole || answer.bytes.len() == 300 * KIB, "{}", answer.status);
    }
    home.at_rest().await;
    watching.abort();
    assert!(!over.load(Ordering::SeqCst), "there was more on the disk than may be");
    let usage = home.portcullis.status().media.store.unwrap();
    assert!(usage.files > 0 && usage.evicted > 0 && usage.bytes <= most, "{usage:?}");

    // What is on its way counts as well: two that never end take what they have taken, and no third finds room for more.
    let mut begun = answer_head(900 * KIB);
    let unended = SentFile::png(&vec![b'x'; 800 * KIB]).envelope();
    begun.extend_from_slice(&unended[..700 * KIB]);
    let (stalling, slow) = world.peer("s.example", Behaviour::answers(move |_| begun.clone())).await;
    let mut asking = JoinSet::new();
    for number in 0..4 {
        let (portcullis, path) = (home.portcullis.clone(), download(&slow, &format!("s{number}")));
        asking.spawn(async move { ask(&portcullis, client(number), &path).await });
    }
    until("origins asked", 4, || stalling.requests().len()).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let usage = home.portcullis.status().media.store.unwrap();
    assert!(usage.unfinished > 0 && usage.unfinished_bytes >= 700 * 1024, "{usage:?}");
    assert!(usage.bytes + usage.unfinished_bytes <= most && on_disk(&dir) <= most, "{usage:?}");
    asking.abort_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_off_or_planted_while_the_server_was_down_is_fetched_anew() {
    let world = World::new().await;
    let picture = vec![b'x'; 100 * KIB];
    let (peer, server) = origin(&world, picture.clone()).await;
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("store");
    let stored = || {
        let files = below(&dir).into_iter().map(|(path, ..)| path);
        files.filter(|path| path.extension().is_some_and(|extension| extension == "media")).collect::<Vec<_>>()
    };
    let mut requests = 0;
    for damage in 0..6 {
        let home = home_in(&world, &dir);
        home.ask(client(1), &download(&server, "a")).await.assert_file(&picture);
        home.at_rest().await;
        requests += 1;
        assert_eq!(peer.requests().len(), requests, "damage {damage} was served");
        // And it is kept: asking again asks nobody.
        home.ask(client(1), &download(&server, "a")).await.assert_file(&picture);
        assert_eq!(peer.requests().len(), requests);
        let files = stored();
        assert_eq!(files.len(), 1, "{files:?}");
        let file = files[0].clone();
        drop(home);
        let_go(&dir).await;
        let whole = std::fs::read(&file).unwrap();
        match damage {
            0 => std::fs::write(&file, &whole[..whole.len() - 1]).unwrap(),
            1 => std::fs::write(&file, &whole[..whole.len() / 2]).unwrap(),
            2 => std::fs::write(&file, b"").unwrap(),
            // A stranger's bytes under our name.
            3 => std::fs::write(&file, [b"<html>".as_slice(), &whole].concat()).unwrap(),
            // Its end is there, and a piece of its middle is not.
            4 => std::fs::write(&file, [&whole[..whole.len() / 2], &whole[whole.len() / 2 + 100..]].concat()).unwrap(),
            // A stop before the last step.
            _ => std::fs::rename(&file, file.with_extension("part")).unwrap(),
        }
    }
    let home = home_in(&world, &dir);
    home.ask(client(1), &download(&server, "a")).await.assert_file(&picture);
    assert_eq!(peer.requests().len(), requests + 1);
}
