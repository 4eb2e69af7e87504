//! What happened in one run.

use std::time::Duration;

use crate::gate::state::{Dated, Happened};
use crate::outcome::Outcome;
use crate::simulation::curve::Curve;

/// One page that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// By whom.
    pub instance: usize,
    /// When.
    pub asked: Duration,
    /// When it ended for its caller, and how; nothing if the run ended first.
    pub ended: Option<(Duration, Outcome)>,
    /// When the server was done with it.
    pub served: Option<Duration>,
}

/// Everything that happened in one run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Every page, in the order they were asked for, instance by instance where instances ran apart.
    pub pages: Vec<Page>,
    /// What happened at each instance's gate.
    pub happened: Vec<(usize, Dated)>,
    /// When each instance found that there is nothing left to ask for; 0 if it never did.
    pub finished: Vec<Duration>,
    /// The run's end: nothing is asked for from then on.
    pub until: Duration,
}

/// What a breaker does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It lets nothing through.
    Open,
    /// It lets one call through.
    Probing,
}

/// A time during which a breaker is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSpan {
    /// What it does.
    pub kind: SpanKind,
    /// From then.
    pub from: Duration,
    /// Until then, or until the run's end.
    pub to: Duration,
    /// How often a probe has failed by then.
    pub reopened: u32,
}

impl Recording {
    pub(super) fn new(instances: usize, until: Duration) -> Self {
        Self { pages: Vec::new(), happened: Vec::new(), finished: vec![Duration::ZERO; instances], until }
    }

    /// This run and another that has nothing to do with it, side by side.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        let instances = self.finished.len();
        self.pages.extend(other.pages.into_iter().map(|page| Page { instance: page.instance + instances, ..page }));
        self.happened.extend(other.happened.into_iter().map(|(instance, dated)| (instance + instances, dated)));
        self.finished.extend(other.finished);
        self.until = self.until.max(other.until);
        self
    }

    /// How many pages were asked for.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.pages.len()
    }

    /// How many were asked for between `from` and `to`.
    #[must_use]
    pub fn calls_between(&self, from: Duration, to: Duration) -> usize {
        self.pages.iter().filter(|page| (from..to).contains(&page.asked)).count()
    }

    /// How many of those were given up at their timeout.
    #[must_use]
    pub fn given_up_between(&self, from: Duration, to: Duration) -> usize {
        self.pages.iter().filter(|page| (from..to).contains(&page.asked) && page.was_given_up()).count()
    }

    /// How many were given up at their timeout.
    #[must_use]
    pub fn given_up(&self) -> usize {
        self.pages.iter().filter(|page| page.was_given_up()).count()
    }

    /// How many came.
    #[must_use]
    pub fn pages_received(&self) -> usize {
        self.pages.iter().filter(|page| page.answer_time().is_some()).count()
    }

    /// How long each page took that came, shortest first.
    #[must_use]
    pub fn answer_times(&self) -> Vec<Duration> {
        let mut times: Vec<_> = self.pages.iter().filter_map(Page::answer_time).collect();
        times.sort_unstable();
        times
    }

    /// How long the server worked on each page after it was given up, shortest first.
    #[must_use]
    pub fn work_left(&self) -> Vec<Duration> {
        let mut times: Vec<_> = self
            .pages
            .iter()
            .filter(|page| page.was_given_up())
            .filter_map(|page| Some(page.served?.saturating_sub(page.ended?.0)))
            .collect();
        times.sort_unstable();
        times
    }

    /// When each page of one instance was asked for.
    #[must_use]
    pub fn admissions(&self, instance: usize) -> Vec<Duration> {
        self.pages.iter().filter(|page| page.instance == instance).map(|page| page.asked).collect()
    }

    /// Pages the server is at work on.
    #[must_use]
    pub fn at_work(&self) -> Curve {
        Curve::of_spans(self.pages.iter().map(|page| (page.asked, page.served.unwrap_or(Duration::MAX))))
    }

    /// Pages that somebody waits for: what the client believes is in flight.
    #[must_use]
    pub fn believed_in_flight(&self) -> Curve {
        Curve::of_spans(
            self.pages.iter().map(|page| (page.asked, page.ended.map_or(Duration::MAX, |(ended, _)| ended))),
        )
    }

    /// The limit of one instance's gate, which began at `initial`.
    #[must_use]
    pub fn limit(&self, instance: usize, initial: usize) -> Curve {
        let changes = self.of(instance).filter_map(|dated| match dated.what {
            Happened::LimitChanged { to, .. } => Some((dated.at, to)),
            _ => None,
        });
        Curve::of_steps([(Duration::ZERO, initial)].into_iter().chain(changes))
    }

    /// When each slot was held at one instance's gate.
    #[must_use]
    pub fn holds(&self, instance: usize) -> Vec<(Duration, Duration)> {
        self.of(instance)
            .filter_map(|dated| match dated.what {
                Happened::Held { until } => Some((dated.at, until)),
                _ => None,
            })
            .collect()
    }

    /// The times during which one instance's breaker was not closed.
    #[must_use]
    pub fn breaker_spans(&self, instance: usize) -> Vec<BreakerSpan> {
        let mut spans: Vec<BreakerSpan> = Vec::new();
        let mut going_on = false;
        for dated in self.of(instance) {
            let begins = match dated.what {
                Happened::Opened { reopened, .. } => Some((SpanKind::Open, reopened)),
                Happened::Probing => Some((SpanKind::Probing, spans.last().map_or(0, |span| span.reopened))),
                Happened::Closed => None,
                _ => continue,
            };
            if going_on && let Some(span) = spans.last_mut() {
                span.to = dated.at;
            }
            going_on = begins.is_some();
            if let Some((kind, reopened)) = begins {
                spans.push(BreakerSpan { kind, from: dated.at, to: self.until, reopened });
            }
        }
        spans
    }

    fn of(&self, instance: usize) -> impl Iterator<Item = &Dated> {
        self.happened.iter().filter(move |(whose, _)| *whose == instance).map(|(_, dated)| dated)
    }
}

impl Page {
    /// Whether its caller gave up at the timeout.
    #[must_use]
    pub fn was_given_up(&self) -> bool {
        matches!(self.ended, Some((_, Outcome::TimedOut)))
    }

    /// How long it took, if it came.
    #[must_use]
    pub fn answer_time(&self) -> Option<Duration> {
        match self.ended {
            Some((at, Outcome::FastSuccess | Outcome::SlowSuccess)) => Some(at.saturating_sub(self.asked)),
            _ => None,
        }
    }
}
