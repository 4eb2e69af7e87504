//! The operator's socket as an operator and a scraper meet it, and the files in `contrib/` that read it.
#![cfg(all(feature = "server", target_os = "linux"))]

#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[path = "../loopback/mod.rs"]
mod loopback;

#[cfg(test)]
mod chromium;
#[cfg(test)]
mod contrib;
#[cfg(test)]
mod exposition;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod page;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod status_keys;
