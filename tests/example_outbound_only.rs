//! The example of the way out alone, rehearsed: what it says of each server.
#![cfg(feature = "outbound")]

#[path = "../examples/outbound_only.rs"]
#[expect(dead_code, reason = "its main function is for the command line")]
mod outbound_only;

use http::StatusCode;
use outbound_only::NoAnswer;
use portcullis::Refusal;
use portcullis::outbound::{CallFailure, CallPhase, DiscoveryError};

#[tokio::test]
async fn the_way_out_alone_bounds_answers_time_and_addresses() {
    let seen = outbound_only::rehearse().await.unwrap();
    let [answers, huge, silent, inside, own] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(answers.as_ref().unwrap().status, StatusCode::OK);
    let failed = |seen: &Result<_, NoAnswer>| match seen {
        Err(NoAnswer::Failed(error)) => *error,
        other => panic!("{other:?}"),
    };
    assert_eq!((failed(huge).phase, failed(huge).failure), (CallPhase::Body, CallFailure::TooLarge));
    assert_eq!((failed(silent).phase, failed(silent).timed_out), (CallPhase::Send, true));
    assert_eq!(failed(inside).failure, CallFailure::Discovery(DiscoveryError::AddressRefused));
    assert!(matches!(own, Err(NoAnswer::Refused(Refusal::OwnServer))), "{own:?}");
}
