//! [`Explained`]: discovery step by step, for an operator who asks why a name leads where it leads.

use std::time::Duration;

use crate::outbound::destination::Destination;
use crate::outbound::discover::DiscoveryError;
use crate::server_name::ServerName;

/// The steps of discovery, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiscoveryStep {
    /// Taking the name apart (steps 1 and 2).
    Name,
    /// The well-known file (step 3).
    WellKnown,
    /// `_matrix-fed._tcp` records (steps 3.3 and 4).
    Srv,
    /// `_matrix._tcp` records (steps 3.4 and 5).
    SrvDeprecated,
    /// Addresses, and whether they may be connected to.
    Addresses,
}

/// What a step brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepOutcome {
    /// What it looks for.
    Found,
    /// It does not exist.
    None,
    /// Not taken: something earlier made it unnecessary or impossible.
    Skipped,
    /// No proper answer.
    Failed,
    /// Something that is not allowed.
    Refused,
}

/// One step and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenStep {
    /// Which one.
    pub step: DiscoveryStep,
    /// What it brought.
    pub outcome: StepOutcome,
    /// For people: names, records and addresses of the server that was asked about are among it.
    pub detail: String,
    /// How long it took.
    pub took: Duration,
}

/// Discovery of one name with all its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// Where the name leads, or why nowhere.
    pub result: Result<Destination, DiscoveryError>,
    /// The name that a well-known file delegated to, also when discovery failed later.
    pub delegated_to: Option<ServerName>,
    /// Every step once, in order, the skipped ones among them.
    pub steps: Vec<TakenStep>,
    /// The step that ended a discovery that failed.
    pub ended_at: DiscoveryStep,
}

impl DiscoveryStep {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Name, Self::WellKnown, Self::Srv, Self::SrvDeprecated, Self::Addresses];

    /// The fixed word for logs and `portcullis resolve`.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::WellKnown => "well-known",
            Self::Srv => "srv",
            Self::SrvDeprecated => "srv-deprecated",
            Self::Addresses => "addresses",
        }
    }
}

impl StepOutcome {
    /// The fixed word for logs and `portcullis resolve`.
    #[must_use]
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::None => "none",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// The steps as they are taken.
#[derive(Debug, Default)]
pub(super) struct Trail {
    taken: Vec<TakenStep>,
    delegated_to: Option<ServerName>,
    /// The step that was next when time ran out.
    cut_at: Option<DiscoveryStep>,
}

impl Trail {
    pub(super) fn note(&mut self, step: DiscoveryStep, outcome: StepOutcome, detail: String, took: Duration) {
        self.taken.push(TakenStep { step, outcome, detail, took });
    }

    pub(super) fn delegated_to(&mut self, name: &ServerName) {
        self.delegated_to = Some(name.clone());
    }

    pub(super) fn cut_at(&mut self, step: DiscoveryStep) {
        self.cut_at = Some(step);
    }

    /// Adds what was not noted: the judgement of a literal, and the steps that were not taken.
    pub(super) fn finished(mut self, result: Result<Destination, DiscoveryError>) -> Explained {
        let noted = |taken: &[TakenStep], step| taken.iter().any(|one| one.step == step);
        if !noted(&self.taken, DiscoveryStep::Addresses) {
            let literal = match &result {
                Ok(_) => Some((StepOutcome::Found, "a literal address, nothing to look up")),
                Err(DiscoveryError::AddressRefused) => Some((StepOutcome::Refused, "a literal address, not allowed")),
                Err(_) => None,
            };
            if let Some((outcome, detail)) = literal {
                self.note(DiscoveryStep::Addresses, outcome, detail.to_owned(), Duration::ZERO);
            }
        }
        let last = self.taken.last().map_or(DiscoveryStep::Name, |taken| taken.step);
        let ended_at = self.cut_at.unwrap_or(last);
        for step in DiscoveryStep::ALL {
            if !noted(&self.taken, step) {
                self.note(step, StepOutcome::Skipped, String::new(), Duration::ZERO);
            }
        }
        self.taken.sort_by_key(|taken| DiscoveryStep::ALL.iter().position(|step| *step == taken.step));
        Explained { result, delegated_to: self.delegated_to, steps: self.taken, ended_at }
    }
}
