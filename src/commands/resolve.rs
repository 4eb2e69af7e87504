//! `portcullis resolve`: where a server name leads, step by step.
//!
//! An operator asks this when federation with one server does not work: it has to show which step decided, what that step
//! saw, and how long it took. Only well-known files are fetched; the destination itself is never dialled.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use portcullis::outbound::{Discovery, DiscoveryError, DiscoveryStep, JudgedAddress, StepOutcome, TakenStep};
use portcullis::{Host, InvalidServerName, OutboundDeadline, ServerName};
use serde::Serialize;
use tokio::time::Instant;

/// What `portcullis resolve` tells. As JSON every key is always present.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    pub(crate) server_name: String,
    /// How the final address was found.
    pub(crate) source: Option<&'static str>,
    pub(crate) delegated_to: Option<String>,
    pub(crate) host_header: Option<String>,
    /// The name in the TLS handshake; none for an address.
    pub(crate) tls_name: Option<String>,
    /// In dial order.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) steps: Vec<Step>,
    pub(crate) error: Option<Failure>,
}

/// One step, taken or skipped.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the field names are the keys of the JSON object")]
pub(crate) struct Step {
    pub(crate) step: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) detail: String,
    pub(crate) ms: u64,
}

/// Why the name leads nowhere.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) step: &'static str,
    pub(crate) detail: String,
}

/// Where `name` leads, found out by `deadline`.
pub(crate) async fn explain(discovery: &Discovery, name: &str, deadline: OutboundDeadline) -> Explanation {
    let server_name: ServerName = match name.parse() {
        Ok(server_name) => server_name,
        Err(error) => return Explanation::invalid(name, error),
    };
    let explained = discovery.explain(&server_name, deadline).await;
    let mut explanation = Explanation {
        delegated_to: explained.delegated_to.map(|name| name.to_string()),
        steps: explained.steps.into_iter().map(Step::from).collect(),
        ..Explanation::empty(name)
    };
    match explained.result {
        Ok(destination) => {
            explanation.source = Some(destination.source.as_label());
            explanation.host_header = Some(destination.host_header);
            explanation.tls_name = match destination.tls_name {
                Host::Name(name) => Some(name.to_string()),
                Host::V4(_) | Host::V6(_) => None,
            };
            explanation.addresses = destination.addresses.into_iter().map(JudgedAddress::socket_addr).collect();
        }
        Err(error) => {
            let kind = kind_of(error, deadline.is_expired(Instant::now()));
            let step = explained.ended_at.as_label();
            explanation.error = Some(Failure { kind, step, detail: error.to_string() });
        }
    }
    explanation
}

/// The fixed word for an error. `deadline` is said only when the whole of it is spent; a question that was cut at its share
/// is a failure of the DNS.
fn kind_of(error: DiscoveryError, deadline_spent: bool) -> &'static str {
    match error {
        DiscoveryError::NoAddresses => "no-addresses",
        DiscoveryError::AddressRefused | DiscoveryError::OwnServer => "address-refused",
        DiscoveryError::SrvRefused => "srv-refused",
        DiscoveryError::OutOfTime if deadline_spent => "deadline",
        _ => "dns-failure",
    }
}

impl Explanation {
    fn empty(name: &str) -> Self {
        Self {
            server_name: name.to_owned(),
            source: None,
            delegated_to: None,
            host_header: None,
            tls_name: None,
            addresses: Vec::new(),
            steps: Vec::new(),
            error: None,
        }
    }

    fn invalid(name: &str, error: InvalidServerName) -> Self {
        let first = DiscoveryStep::Name;
        let detail =
            if name.contains("://") { "a server name is wanted, not a URL".to_owned() } else { error.to_string() };
        let steps = DiscoveryStep::ALL.into_iter().map(|step| {
            let refused = step == first;
            let outcome = if refused { StepOutcome::Refused } else { StepOutcome::Skipped };
            let detail = if refused { detail.clone() } else { String::new() };
            Step { step: step.as_label(), outcome: outcome.as_label(), detail, ms: 0 }
        });
        let steps = steps.collect();
        let failure = Failure { kind: "invalid-server-name", step: first.as_label(), detail };
        Self { steps, error: Some(failure), ..Self::empty(name) }
    }

    /// One JSON object.
    pub(crate) fn to_json(&self) -> String {
        // Strings, numbers and lists of them: there is nothing that could not be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For a terminal: the steps as a table, then the result. Ends with a line end.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        // Writing into a String does not fail.
        let _ = writeln!(out, "{}\n", self.server_name.escape_debug());
        let _ = writeln!(out, "  {:<16}{:<10}{:>9}  detail", "step", "outcome", "time");
        for Step { step, outcome, detail, ms } in &self.steps {
            let time = if *outcome == StepOutcome::Skipped.as_label() { "-".to_owned() } else { format!("{ms} ms") };
            let line = format!("  {step:<16}{outcome:<10}{time:>9}  {detail}");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
        let mut row = |title: &str, value: &str| {
            let _ = writeln!(out, "  {title:<16}{value}");
        };
        if let Some(source) = self.source {
            row("source", source);
        }
        if let Some(name) = &self.delegated_to {
            row("delegated to", name);
        }
        if let Some(host) = &self.host_header {
            row("Host header", host);
            row("TLS name", self.tls_name.as_deref().unwrap_or("none (an address, no SNI)"));
        }
        for (index, address) in self.addresses.iter().enumerate() {
            row(if index == 0 { "addresses" } else { "" }, &address.to_string());
        }
        if let Some(Failure { kind, step, detail }) = &self.error {
            row("error", &format!("{kind} at {step}: {detail}"));
        }
        out
    }
}

impl From<TakenStep> for Step {
    fn from(taken: TakenStep) -> Self {
        Self {
            step: taken.step.as_label(),
            outcome: taken.outcome.as_label(),
            detail: taken.detail,
            ms: whole_milliseconds(taken.took),
        }
    }
}

fn whole_milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use portcullis::DnsName;
    use portcullis::outbound::{AddressPolicy, BoxFuture, DnsError, Resolve, SrvRecord, SrvService};
    use portcullis::outbound::{Attempt, RemoteBody, Transport, TransportError, TransportPhase};

    use super::*;

    /// Every name has one address, but `silent.example`; nothing answers on port 443.
    struct World;

    impl Resolve for World {
        fn addresses<'a>(
            &'a self,
            name: &'a DnsName,
            deadline: OutboundDeadline,
        ) -> BoxFuture<'a, Result<Vec<IpAddr>, DnsError>> {
            Box::pin(async move {
                if name.as_str() == "silent.example" {
                    tokio::time::sleep_until(deadline.expires_at()).await;
                    return Err(DnsError::TimedOut);
                }
                Ok(vec![IpAddr::from([44, 128, 10, 1])])
            })
        }

        fn service<'a>(
            &'a self,
            _: SrvService,
            _: &'a DnsName,
            _: OutboundDeadline,
        ) -> BoxFuture<'a, Result<Vec<SrvRecord>, DnsError>> {
            Box::pin(async { Err(DnsError::NoRecords) })
        }
    }

    impl Transport for World {
        fn send(
            &self,
            _: Attempt,
            _: OutboundDeadline,
        ) -> BoxFuture<'_, Result<http::Response<RemoteBody>, TransportError>> {
            Box::pin(async { Err(TransportError { phase: TransportPhase::Connect, timed_out: false }) })
        }
    }

    async fn explained(name: &str) -> Explanation {
        let agent = http::HeaderValue::from_static("test");
        let own_name = "hs.self.example".parse().unwrap();
        let discovery = Discovery::new(own_name, Arc::new(World), Arc::new(World), AddressPolicy::default(), agent);
        explain(&discovery, name, OutboundDeadline::after(Duration::from_secs(10), Instant::now())).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_json_object_has_every_key_whatever_happened() {
        for (name, kind) in [
            ("alpha.example", None),
            ("44.128.10.1:8449", None),
            ("", Some("invalid-server-name")),
            ("10.0.0.1", Some("address-refused")),
            ("silent.example:1", Some("dns-failure")),
        ] {
            let json: serde_json::Value = serde_json::from_str(&explained(name).await.to_json()).unwrap();
            let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
            let mut expected =
                ["server_name", "source", "delegated_to", "host_header", "tls_name", "addresses", "steps", "error"];
            expected.sort_unstable();
            assert_eq!(keys, expected, "{name}");
            assert_eq!(json["error"]["kind"].as_str(), kind, "{name}");
            let steps: Vec<_> = json["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
            assert_eq!(steps, ["name", "well-known", "srv", "srv-deprecated", "addresses"], "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_literal_has_no_tls_name() {
        let explanation = explained("44.128.10.1:8449").await;
        assert_eq!((explanation.source, explanation.tls_name), (Some("ip-literal"), None));
        assert_eq!(explanation.addresses, ["44.128.10.1:8449".parse().unwrap()]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_lines_up() {
        let expected = "\
alpha.example

  step            outcome        time  detail
  name            found          0 ms  a name without a port
  well-known      failed         0 ms  connect-failed
  srv             none           0 ms  no such records
  srv-deprecated  none           0 ms  no such records
  addresses       found          0 ms  alpha.example: 44.128.10.1

  source          default
  Host header     alpha.example
  TLS name        alpha.example
  addresses       44.128.10.1:8448
";
        assert_eq!(explained("alpha.example").await.render(), expected);
        let refused = explained("a\u{1b}b").await.render();
        assert!(refused.starts_with("a\\u{1b}b\n"), "{refused}");
        assert!(
            refused.ends_with("error           invalid-server-name at name: a character that no server name holds\n")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_url_is_told_from_a_server_name() {
        for url in ["https://matrix.org", "https://matrix.org/", "matrix://r/a:b"] {
            let failure = explained(url).await.error.unwrap();
            assert_eq!((failure.kind, failure.step), ("invalid-server-name", "name"));
            assert_eq!(failure.detail, "a server name is wanted, not a URL");
        }
        assert!(!explained("a/b").await.error.unwrap().detail.contains("URL"));
    }

    #[test]
    fn only_a_spent_deadline_is_called_one() {
        assert_eq!(kind_of(DiscoveryError::OutOfTime, true), "deadline");
        assert_eq!(kind_of(DiscoveryError::OutOfTime, false), "dns-failure");
        assert_eq!(kind_of(DiscoveryError::DnsFailure, true), "dns-failure");
        assert_eq!(kind_of(DiscoveryError::OwnServer, true), "address-refused");
    }
}
