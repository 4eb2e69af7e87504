//! No file tells a load gate anything: whoever posts a link chooses the server that others fetch it from.

use super::*;
use crate::gate::{GateKey, GateRegistry};
use crate::limits::INITIAL_LIMIT;

#[tokio::test(start_paused = true)]
async fn a_fetch_tells_no_gate_however_it_ends() {
    for does in [
        Does::SayAfter(Duration::ZERO, MediaCallError::Status(503)),
        Does::SayAfter(Duration::ZERO, BROKEN),
        Does::StaySilent,
    ] {
        let rig = Rig::new(FakeOrigin::new(move |_| does.clone()));
        let gates = GateRegistry::default();
        let gate = gates.gate(&GateKey::from_base_url("https://them.example:8448").unwrap()).unwrap();
        let portcullis = rig.builder().gates(gates.clone()).build().unwrap();
        for request in [file("them.example", "abc"), file("other.example", "abc")] {
            assert!(fetch(&portcullis, 1, &request).await.status >= 500);
        }
        assert_eq!((rig.origin.calls(), gate.status().limit), (2, INITIAL_LIMIT));
        assert_eq!((gates.len(), gates.unheard_reports()), (1, 0));
    }
}
