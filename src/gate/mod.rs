//! The load gate.

mod breaker;
mod constants;
mod effects;
mod held;
mod limit;
mod queue;
mod snapshot;
pub mod state;

pub use constants::GateConstants;
