//! The load gate through its public API, under paused time: every figure of the rules' worked examples, to the millisecond.
//!
//! One file per rule or topic; `README.md` beside this file lists them, and the one-line faults each was seen to catch.
#![cfg(all(feature = "gate", not(any(portcullis_loom, portcullis_shuttle))))]

#[cfg(test)]
mod rig;
#[cfg(test)]
#[path = "../support/logging.rs"]
mod threads_log;

#[cfg(test)]
mod breaker;
#[cfg(test)]
mod brief_callers;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod decreases;
#[cfg(test)]
mod events;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod interactive;
#[cfg(test)]
mod logging;
#[cfg(test)]
mod long_polls;
#[cfg(test)]
mod main_timeline;
#[cfg(test)]
mod passing_on;
#[cfg(test)]
mod reentrant;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod status;
#[cfg(test)]
mod types;
#[cfg(test)]
mod variants;
