//! Files of a real Synapse.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::rig::{Answer, Media};
use crate::world::World;

const DOWNLOAD: &str = "/_matrix/client/v1/media/download/";
const THUMBNAIL: &str = "/_matrix/client/v1/media/thumbnail/";

/// # Panics
/// If it is not this file, byte by byte.
pub(crate) fn assert_is(answer: &Answer, file: &Media) {
    assert_has_the_bytes_of(answer, file);
    let content_type = answer.headers["content-type"].to_str().unwrap();
    assert!(content_type.starts_with(&file.content_type), "{content_type} is not {}", file.content_type);
    let disposition = answer.headers["content-disposition"].to_str().unwrap();
    assert!(disposition.contains(&file.name), "{disposition} does not name {}", file.name);
    for name in ["content-security-policy", "cross-origin-resource-policy", "x-content-type-options"] {
        assert!(answer.headers.contains_key(name), "{name}: {:?}", answer.headers);
    }
}

/// # Panics
/// If its bytes are not those of this file.
pub(crate) fn assert_has_the_bytes_of(answer: &Answer, file: &Media) {
    assert_eq!(answer.status, 200, "{:?}", answer.headers);
    assert_eq!(answer.body.len(), usize::try_from(file.bytes).unwrap());
    assert_eq!(hex(&Sha256::digest(&answer.body)), file.sha256);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) async fn small_files_arrive_whole(world: &World) {
    for kind in ["png", "text"] {
        let file = &world.away.media[kind];
        let answer = world.us().user().get(&format!("{DOWNLOAD}{}", file.path())).await;
        assert_is(&answer, file);
        let disposition = answer.headers["content-disposition"].to_str().unwrap();
        assert!(disposition.starts_with("inline"), "{kind}: {disposition}");
    }
}

pub(crate) async fn twenty_mebibytes_arrive_whole(world: &World) {
    let file = &world.away.media["binary"];
    assert_eq!(file.bytes, 20 * crate::rig::MIB);
    let path = format!("{DOWNLOAD}{}", file.path());
    assert_is(&world.us().user().get(&path).await, file);
    // And once more from the store, the origin being silent.
    let stopped = world.away.stopped();
    let answer = world.us().user().get(&path).await;
    drop(stopped);
    assert_is(&answer, file);
}

pub(crate) async fn a_page_is_saved_and_not_shown(world: &World) {
    let file = &world.away.media["html"];
    let answer = world.us().user().get(&format!("{DOWNLOAD}{}", file.path())).await;
    assert_is(&answer, file);
    assert!(answer.headers["content-disposition"].to_str().unwrap().starts_with("attachment"), "{:?}", answer.headers);
}

pub(crate) async fn a_thumbnail_is_made(world: &World) {
    let file = &world.away.media["png"];
    let path = format!("{THUMBNAIL}{}?width=96&height=96&method=crop", file.path());
    let answer = world.us().user().get(&path).await;
    assert_eq!((answer.status, &answer.headers["content-type"]), (200, &"image/png".parse().unwrap()));
    // The width and the height of a PNG are at a fixed place.
    let side = |at: usize| u32::from_be_bytes(answer.body[at..at + 4].try_into().unwrap());
    assert_eq!((side(16), side(20)), (96, 96));
    // Of a text there is none.
    let path = format!("{THUMBNAIL}{}?width=96&height=96", world.away.media["text"].path());
    assert_eq!(world.us().user().get(&path).await.verdict(), (400, "M_UNKNOWN".into()));
}

pub(crate) async fn an_unknown_file_is_not_found(world: &World) {
    let path = format!("{DOWNLOAD}{}/nosuchfile", world.away.server_name);
    assert_eq!(world.us().user().get(&path).await.verdict(), (404, "M_NOT_FOUND".into()));
    let path = format!("{DOWNLOAD}{}", world.away.media["png"].path());
    assert_eq!(world.us().stranger().get(&path).await.verdict(), (401, "M_MISSING_TOKEN".into()));
}

/// A server of today answers those paths with 404 to other servers: we have to ask the endpoint it has.
pub(crate) async fn the_old_paths_lead_to_the_new_endpoint(world: &World) {
    let file = &world.away.media["text"];
    for version in ["v3", "r0", "v1"] {
        let answer = world.us().stranger().get(&format!("/_matrix/media/{version}/download/{}", file.path())).await;
        assert_is(&answer, file);
    }
}
