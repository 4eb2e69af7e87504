//! Public reports about remote media, each turned into its right value and tried over real sockets.
//!
//! A test is named after its report; what it tries is the kind of fault, not only the one instance that was reported.
#![cfg(feature = "server")]

#[cfg(test)]
mod loopback;
#[cfg(test)]
mod support;

#[cfg(test)]
mod bug_reports_media {
    mod bounds;
    mod envelope;
    mod failures;
    mod sharing;
}
