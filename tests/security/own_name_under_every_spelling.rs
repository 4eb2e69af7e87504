//! Our own name, in a spelling that does not look like it.
//!
//! *Attack:* ask for our own list or alias under another case or with the port written out, or delegate a name to us: the
//! server dials itself, and each hop holds a slot and a thread. *Control:* `ServerName::is_same_server`
//! (`src/server_name.rs`), asked by `Portcullis::decide` before anything else; `Rules::own_host` in
//! `src/outbound/discovery.rs` for delegations and SRV targets; `Fetcher::fetch` for redirects. *Unplug:* compare the texts
//! in `is_same_server`: the other spellings are dialled. Pass no `own_host` in `Discovery::guarded`: the delegations are.

use std::net::SocketAddr;

use crate::rig::{Does, NO_ROOMS, Names, Outside, PUBLIC, ask, assert_at_rest, list_of, portcullis_of_eight};

#[tokio::test]
async fn every_spelling_of_our_name_is_answered_here_and_nothing_is_looked_up_or_dialled() {
    let (names, outside) = (Names::all_at(PUBLIC.parse().unwrap()), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    for ours in ["us.example", "US.example", "us.EXAMPLE", "us.example:8448", "Us.Example:8448", "us%2Eexample%3A8448"]
    {
        assert_eq!(ask(&portcullis, 1, &list_of(ours, 1)).await.0, 200, "{ours}");
        for (alias, status) in [("here", 200), ("elsewhere", 404)] {
            let path = format!("/_matrix/client/v3/directory/room/%23{alias}:{ours}");
            assert_eq!(ask(&portcullis, 1, &path).await.0, status, "{ours}");
        }
    }
    for no_name in ["us.example.", "us.example:08448", "us.example:+8448"] {
        assert_eq!(ask(&portcullis, 1, &list_of(no_name, 1)).await.0, 400, "{no_name}");
    }
    assert_eq!((names.asked(), outside.dialled().len()), (0, 0));
    assert_at_rest(&portcullis);
}

#[tokio::test]
async fn another_port_of_our_host_is_another_server() {
    let (names, outside) = (Names::all_at(PUBLIC.parse().unwrap()), Outside::that(Does::Answers(NO_ROOMS)));
    let portcullis = portcullis_of_eight(&names, &outside);
    ask(&portcullis, 1, &list_of("us.example:8449", 1)).await;
    assert!(names.asked() > 0);
}

#[tokio::test]
async fn no_delegation_and_no_redirect_leads_back_to_our_host_whatever_the_port() {
    for back in [
        Does::Answers(r#"{"m.server":"us.example"}"#),
        Does::Answers(r#"{"m.server":"US.example:8448"}"#),
        Does::Answers(r#"{"m.server":"us.example:8449"}"#),
        Does::Redirects("https://us.example/.well-known/matrix/server"),
        Does::Redirects("https://US.EXAMPLE:8448/"),
    ] {
        let names = Names::all_at(PUBLIC.parse().unwrap());
        let outside = Outside::by(move |attempt| match attempt.address.socket_addr().port() {
            443 => back.clone(),
            _ => Does::Refuses,
        });
        let portcullis = portcullis_of_eight(&names, &outside);
        assert_eq!(ask(&portcullis, 1, &list_of("them.example", 1)).await.0, 502);
        let well_known = SocketAddr::new(PUBLIC.parse().unwrap(), 443);
        let hosts: Vec<_> = outside.dialled().iter().map(|dialled| dialled.headers["host"].clone()).collect();
        assert_eq!(outside.addresses()[0], well_known);
        assert!(hosts.iter().all(|host| host == "them.example"), "{hosts:?}");
        assert_at_rest(&portcullis);
    }
}
