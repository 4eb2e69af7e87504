//! [`Chain`]: aliases, followed and counted.

use std::time::Duration;

use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

use crate::limits::MAX_CNAME_HOPS;
use crate::outbound::resolver::DnsError;

/// The way from a name over its aliases. Never longer than [`MAX_CNAME_HOPS`], never twice through the same name.
pub(super) struct Chain {
    names: Vec<Name>,
    end: Name,
    ttl: u32,
}

/// What an answer added to the chain.
pub(super) enum Link {
    /// The records at its end.
    Records(Vec<RData>),
    /// Aliases whose end the answer does not tell about: ask for it.
    Ask,
    /// Nothing that belongs to it.
    Nothing,
}

impl Chain {
    pub(super) fn from(owner: &Name) -> Self {
        Self { names: Vec::new(), end: owner.to_lowercase(), ttl: u32::MAX }
    }

    /// The name to ask for next.
    pub(super) fn end(&self) -> &Name {
        &self.end
    }

    /// The shortest time to live of all records on the way.
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_secs(self.ttl.into())
    }

    /// The chain's time to live or `other`, whichever is shorter.
    pub(super) fn shorter(&self, other: Duration) -> Duration {
        self.ttl().min(other)
    }

    /// Follows the aliases in `answers` from the chain's end. Records of other owners are not looked at.
    ///
    /// *Errors:* [`DnsError::AliasLoop`]: a circle, or too many.
    pub(super) fn follow(&mut self, answers: &[Record], kind: RecordType) -> Result<Link, DnsError> {
        let mut advanced = false;
        loop {
            let here = || answers.iter().filter(|record| record.name.to_lowercase() == self.end);
            let records: Vec<RData> =
                here().filter(|record| record.record_type() == kind).map(|record| record.data.clone()).collect();
            if !records.is_empty() {
                let ttl = here().filter(|record| record.record_type() == kind).map(|record| record.ttl).min();
                self.ttl = ttl.map_or(self.ttl, |ttl| ttl.min(self.ttl));
                return Ok(Link::Records(records));
            }
            let alias = here().find_map(|record| match &record.data {
                RData::CNAME(target) => Some((target.0.to_lowercase(), record.ttl)),
                _ => None,
            });
            let Some((target, ttl)) = alias else {
                return Ok(if advanced { Link::Ask } else { Link::Nothing });
            };
            if self.names.len() >= MAX_CNAME_HOPS || target == self.end || self.names.contains(&target) {
                return Err(DnsError::AliasLoop);
            }
            self.names.push(std::mem::replace(&mut self.end, target));
            self.ttl = ttl.min(self.ttl);
            advanced = true;
        }
    }
}
