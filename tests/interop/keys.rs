//! What a real Synapse does with our signature: it fetches our key, and refuses what does not fit it.

use portcullis::outbound::Ed25519Signer;

use crate::rig::{Answer, Client, Serve, Setup};
use crate::world::{Us, World};

fn list(world: &World, limit: u32) -> String {
    // Answers are remembered, so each test asks for another page size.
    format!("/_matrix/client/v3/publicRooms?server={}&limit={limit}", world.away.server_name)
}

pub(crate) async fn our_key_is_fetched_once(world: &World) {
    let us = Us::start(&world.away, |setup| setup).await;
    let mut client = us.stranger();
    for limit in [31, 32, 33] {
        let answer = client.get(&list(world, limit)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(us.tls.handshakes(), 1, "the key was fetched once, over TLS, and then known");
}

/// # Panics
/// If the client is not told a 502, or is told more; if the remote did not answer 401.
fn assert_refused_as_ours(answer: &Answer, us: &Serve) {
    assert_eq!(answer.verdict(), (502, "M_UNKNOWN".into()), "not the remote's 401, which would sign the user out");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!text.contains("ignature") && !text.contains("key"), "{text}");
    let log = us.log();
    assert!(log.lines().any(|line| line.contains("401")), "the remote's answer is in our log: {log}");
}

pub(crate) async fn a_wrong_key_is_our_502(world: &World) {
    let us = Us::start(&world.away, |setup| setup).await;
    assert_eq!(us.stranger().get(&list(world, 41)).await.status, 200);
    let document = us.stranger().get("/_matrix/key/v2/server").await.json();
    let (key_id, _) = document["verify_keys"].as_object().unwrap().iter().next().unwrap();
    // Another key under the same name and id, as after a restore of an old backup; and one under another id.
    let name = us.tls.server_name();
    let other = Ed25519Signer::generate(name.parse().unwrap()).to_key_file_line();
    let (_, seed) = other.trim_end().rsplit_once(' ').unwrap();
    for line in [format!("{} {seed}\n", key_id.replace(':', " ")), other.clone()] {
        let impostor = Serve::start(&Setup::embedded(&name, &world.away.ca).signing_with(&line));
        let answer = Client::of(impostor.address()).get(&list(world, 42)).await;
        assert_refused_as_ours(&answer, &impostor);
    }
}

pub(crate) async fn a_key_that_cannot_be_fetched_is_our_502(world: &World) {
    let us = Us::start(&world.away, |setup| setup).await;
    let Us { serve, tls } = us;
    drop(tls);
    let answer = Client::of(serve.address()).get(&list(world, 51)).await;
    assert_refused_as_ours(&answer, &serve);
}
