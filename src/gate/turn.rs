//! The future of one who waits at the gate.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::gate::effects::Grant;
use crate::gate::homeserver_gate::HomeserverGate;
use crate::gate::queue::CallerKind;
use crate::gate::shared::Stage;

/// Waits for a verdict; nothing if it is to go away. Dropped earlier, it leaves no trace, and passes on a turn it had just
/// been given.
#[derive(Debug)]
pub(super) struct Turn<'gate> {
    gate: &'gate HomeserverGate,
    kind: CallerKind,
    patience: Option<Duration>,
    stage: Stage,
}

impl<'gate> Turn<'gate> {
    pub(super) fn of(gate: &'gate HomeserverGate, kind: CallerKind, patience: Option<Duration>) -> Self {
        Self { gate, kind, patience, stage: Stage::Outside }
    }
}

impl Future for Turn<'_> {
    /// The leave to go, and when it was given.
    type Output = Option<(Grant, Duration)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.gate.shared.poll_turn(&mut this.stage, this.kind, this.patience, context)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.shared.leave(&mut self.stage);
    }
}
