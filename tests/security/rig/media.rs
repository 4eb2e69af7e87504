//! What the findings about media share: every route, and all that lies in a folder.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The eight media routes for one file: four paths, the file and a thumbnail of it.
pub(crate) fn routes(server: &str, media_id: &str) -> Vec<String> {
    let of = |prefix: &str| {
        let thumbnail = format!("{prefix}/thumbnail/{server}/{media_id}?width=32&height=32&method=crop");
        [format!("{prefix}/download/{server}/{media_id}"), thumbnail]
    };
    let prefixes = ["/_matrix/client/v1/media", "/_matrix/media/v3", "/_matrix/media/r0", "/_matrix/media/v1"];
    prefixes.into_iter().flat_map(of).collect()
}

/// `path` with one parameter more.
pub(crate) fn with(path: &str, parameter: &str) -> String {
    let more = if path.contains('?') { '&' } else { '?' };
    format!("{path}{more}{parameter}")
}

/// Everything below `folder`: where it is, how long, and when it was last touched.
pub(crate) fn below(folder: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            found.extend(below(&path));
        }
        found.push((path, about.len(), about.modified().unwrap()));
    }
    found.sort();
    found
}

/// Waits until no process holds the store in `folder`, so that the next one can open it.
pub(crate) async fn let_go(folder: &Path) {
    let lock = folder.join("lock");
    super::until("the store is closed", || std::fs::File::open(&lock).unwrap().try_lock().is_ok()).await;
}
