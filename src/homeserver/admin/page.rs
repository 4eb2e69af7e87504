//! The operator's page: one file each of HTML, style and script, served from the binary, and nothing from anywhere else.
//!
//! The script sets what it is told as text, never as markup, and the policy below lets no other script run. Where scripts
//! are off, the page is a snapshot made here, with every character that could be markup written out.

use std::fmt::{self, Write as _};

use super::report::AdminStatus;
use crate::gate::GateStatus;
use crate::homeserver::upstream::UpstreamStatus;
use crate::proxy::watch::DestinationStatus;
use crate::status::BudgetStatus;

/// What a browser may do with an answer of this socket: run our script, use our style, ask us again. No frame, no form, no
/// inline script, and no way from text to markup.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

pub(super) const STYLE: &str = include_str!("page/status.css");
pub(super) const SCRIPT: &str = include_str!("page/status.js");
const PAGE: &str = include_str!("page/status.html");

/// Where the snapshot goes.
const PLACE: &str = "{SNAPSHOT}";

/// The page, with `seen` for browsers without scripts.
pub(super) fn html(seen: &AdminStatus) -> String {
    PAGE.replace(PLACE, &escaped(&snapshot(seen).unwrap_or_default()))
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            character => safe.push(character),
        }
    }
    safe
}

fn snapshot(seen: &AdminStatus) -> Result<String, fmt::Error> {
    let (status, mut text) = (&seen.status, String::new());
    let stopping = if seen.draining { ", stopping" } else { "" };
    let up_s = status.uptime_ms / 1000;
    writeln!(text, "{}, version {}, up {up_s} s{stopping}\n", status.server_name, status.version)?;
    budget(&mut text, "lookups", &status.budgets.directory)?;
    budget(&mut text, "files", &status.budgets.media)?;
    writeln!(text, "files     {} refused: remote media off, or not wanted", status.media.refused_by_switch)?;
    if let Some(pool) = seen.request_pool {
        writeln!(text, "threads   {} of {} idle, {} faults", pool.idle, pool.threads, pool.panicked)?;
    }
    if let Some(long) = seen.long_answers {
        writeln!(
            text,
            "long      {} of {} answers that may take long, {} for one client; {} refused",
            long.in_flight, long.cap, long.per_client, long.refused
        )?;
    }
    if let Some(behind) = &seen.upstream {
        upstream(&mut text, behind)?;
    }
    if let Some(store) = status.media.store {
        writeln!(text, "store     {} of {} bytes, {} files", store.bytes, store.max_bytes, store.files)?;
    }
    for (class, calls) in [("lookups", status.calls.directory), ("files", status.calls.media)] {
        writeln!(
            text,
            "calls     {class}: {} answered, {} timed out, {} failed",
            calls.answered, calls.timed_out, calls.failed
        )?;
    }
    writeln!(text, "\nload gates: {}", status.homeservers.len())?;
    for gate in &status.homeservers {
        gate_line(&mut text, gate)?;
    }
    for (class, servers) in [("lookups", &status.destinations.directory), ("files", &status.destinations.media)] {
        writeln!(text, "\nservers asked lately for {class}: {}", servers.len())?;
        for server in worst_first(servers) {
            server_line(&mut text, server)?;
        }
    }
    Ok(text)
}

fn budget(text: &mut String, class: &str, budget: &BudgetStatus) -> fmt::Result {
    let refused = budget.refused;
    writeln!(
        text,
        "{class:<9} {} of {} slots in use, {} for one client",
        budget.in_flight, budget.cap, budget.per_client
    )?;
    writeln!(text, "{class:<9} {} refused: every slot taken", refused.global)?;
    writeln!(text, "{class:<9} {} refused: client had its share", refused.client)?;
    writeln!(text, "{class:<9} {} refused: client over its rate", refused.rate)
}

fn upstream(text: &mut String, behind: &UpstreamStatus) -> fmt::Result {
    writeln!(text, "behind    {}: {}", behind.origin, word(&behind.state))?;
    let kinds = [
        ("token questions", behind.token_questions),
        ("lists and aliases", behind.passed_on.small),
        ("files", behind.passed_on.files),
    ];
    for (kind, asked) in kinds {
        writeln!(
            text,
            "behind    {} of {} {kind}, {} for one client; {} answered, {} refused, {} silent",
            asked.in_flight, asked.cap, asked.per_client, asked.answered, asked.refused, asked.silent
        )?;
    }
    let waiters = behind.token_waiters;
    writeln!(
        text,
        "behind    {} of {} wait for an equal question, {} for one client; {} refused",
        waiters.in_flight, waiters.cap, waiters.per_client, waiters.refused
    )
}

fn gate_line(text: &mut String, gate: &GateStatus) -> fmt::Result {
    let GateStatus { key, limit, active, held, waiting, breaker, next_admission, .. } = gate;
    write!(
        text,
        "  {key}: breaker {}, limit {limit}, {active} out, {held} held, {waiting} wait; ",
        word(&breaker.state)
    )?;
    if !gate.background_callers {
        return writeln!(text, "nothing waits at it, it only listens");
    }
    let decided_by = word(&next_admission.decided_by);
    match next_admission.at_ms.map(|at| at.saturating_sub(gate.seen_at_ms) / 1000) {
        Some(seconds) => writeln!(text, "next call in {seconds} s ({decided_by})"),
        None => writeln!(text, "next call when another ends ({decided_by})"),
    }
}

/// In the order of the page's script: those that hold slots by how many, then those that answer least, then the slowest.
fn worst_first(servers: &[DestinationStatus]) -> Vec<&DestinationStatus> {
    let mut sorted: Vec<_> = servers.iter().collect();
    sorted.sort_by(|one, other| {
        let ((bad, ended), (other_bad, other_ended)) = (bad_and_ended(one), bad_and_ended(other));
        // The shares of both, compared without a division; a product of two u64 fits.
        let share = u128::from(bad).saturating_mul(u128::from(other_ended));
        let other_share = u128::from(other_bad).saturating_mul(u128::from(ended));
        other.in_flight.cmp(&one.in_flight).then(other_share.cmp(&share)).then(other.mean_ms.cmp(&one.mean_ms))
    });
    sorted
}

/// Of one whose first call is still out nothing good is known: one of one.
fn bad_and_ended(server: &DestinationStatus) -> (u64, u64) {
    let bad = server.counts.timed_out.saturating_add(server.counts.failed);
    match bad.saturating_add(server.counts.answered) {
        0 => (1, 1),
        ended => (bad, ended),
    }
}

fn server_line(text: &mut String, server: &DestinationStatus) -> fmt::Result {
    let DestinationStatus { server, in_flight, counts, mean_ms, slowest_ms, last } = server;
    write!(
        text,
        "  {server}: {in_flight} out, {} answered, {} timed out, {} failed, ",
        counts.answered, counts.timed_out, counts.failed
    )?;
    let Some(last) = last else { return writeln!(text, "mean –, slowest –") };
    write!(text, "mean {mean_ms} ms, slowest {slowest_ms} ms")?;
    match (last.phase, last.reason, last.status) {
        (Some(phase), Some(reason), Some(status)) => writeln!(text, "; last: {phase}: {reason} {status}"),
        (Some(phase), Some(reason), None) => writeln!(text, "; last: {phase}: {reason}"),
        _ => writeln!(text),
    }
}

/// The word that the JSON has for it.
fn word(state: &impl serde::Serialize) -> String {
    let word = serde_json::to_value(state).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_markup_is_written_out() {
        assert_eq!(escaped("<b a=\"'\">&amp;</b>"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;amp;&lt;/b&gt;");
    }

    #[test]
    fn the_page_has_one_script_and_one_style_of_ours_and_no_handler() {
        assert_eq!(PAGE.matches("<script").count(), 1);
        assert!(PAGE.contains("<script src=\"status.js\" defer></script>"));
        assert!(PAGE.contains("<link rel=\"stylesheet\" href=\"status.css\">"));
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for word in [" style=", "javascript:", "//", "onload", "onerror", "onclick"] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }

    #[test]
    fn the_script_makes_no_markup_of_what_it_is_told() {
        for way in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser"]
        {
            assert!(!SCRIPT.contains(way), "{way}");
        }
    }
}
