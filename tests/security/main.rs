//! One file per security finding: the attack, its control, and what fails when the control is unplugged.
//!
//! `README.md` beside this file is the table. Everything runs on loopback, on ports of its own.
#![cfg(all(feature = "server", target_os = "linux"))]

#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[path = "../loopback/mod.rs"]
mod loopback;

#[cfg(test)]
mod rig;

#[cfg(test)]
mod address_spellings;
#[cfg(test)]
mod bounded_memory;
#[cfg(test)]
mod busy_future;
#[cfg(test)]
mod caller_gone;
#[cfg(test)]
mod costly_filter;
#[cfg(test)]
mod credential_never_sent;
#[cfg(test)]
mod dead_dns;
#[cfg(test)]
mod decompression;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod environment_proxies;
#[cfg(test)]
mod forged_forwarded_for;
#[cfg(test)]
mod header_floods;
#[cfg(test)]
mod huge_and_endless_bodies;
#[cfg(test)]
mod inside_addresses;
#[cfg(test)]
mod leak_paths;
#[cfg(test)]
mod media_content;
#[cfg(test)]
mod media_envelopes;
#[cfg(test)]
mod media_leader_gone;
#[cfg(test)]
mod media_leads_inside;
#[cfg(test)]
mod media_order;
#[cfg(test)]
mod media_slow_readers;
#[cfg(test)]
mod media_state;
#[cfg(test)]
mod media_store_folder;
#[cfg(test)]
mod media_switched_off;
#[cfg(test)]
mod no_port_scanner;
#[cfg(test)]
mod own_name_under_every_spelling;
#[cfg(test)]
mod panics_inside_a_call;
#[cfg(test)]
mod pinned_workers;
#[cfg(test)]
mod rate_of_one_client;
#[cfg(test)]
mod rebinding;
#[cfg(test)]
mod redirects_to_the_inside;
#[cfg(test)]
mod refusals_write_nothing_durable;
#[cfg(test)]
mod silent_origins;
#[cfg(test)]
mod slow_drip;
#[cfg(test)]
mod slow_reader;
#[cfg(test)]
mod switch_off;
#[cfg(test)]
mod ten_thousand_hosts;
