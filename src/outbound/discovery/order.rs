//! In which order candidates are tried.

use std::collections::VecDeque;

use crate::outbound::address_policy::JudgedAddress;

/// Something with the priority and weight of an SRV record.
pub(super) struct Weighted<T> {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) value: T,
}

/// The first `limit` values by RFC 2782: lower priority first, inside one priority drawn by weight, where records of
/// weight 0 have a small chance. `dice(n)` is a number from 0 to `n` inclusive.
pub(super) fn by_priority_and_weight<T>(
    mut records: Vec<Weighted<T>>,
    limit: usize,
    dice: &mut dyn FnMut(u32) -> u32,
) -> Vec<T> {
    // Weight 0 first inside its priority: such a record is drawn only when the dice show 0.
    records.sort_by_key(|record| (record.priority, record.weight != 0));
    let mut left: VecDeque<_> = records.into();
    let mut drawn = Vec::new();
    while drawn.len() < limit {
        let Some(priority) = left.front().map(|record| record.priority) else { break };
        let group = left.iter().take_while(|record| record.priority == priority);
        let total = group.fold(0_u32, |sum, record| sum.saturating_add(record.weight.into()));
        let shown = dice(total);
        let mut sum = 0_u32;
        let at = left.iter().take_while(|record| record.priority == priority).position(|record| {
            sum = sum.saturating_add(record.weight.into());
            sum >= shown
        });
        drawn.extend(left.remove(at.unwrap_or(0)).map(|record| record.value));
    }
    drawn
}

/// IPv4 and IPv6 in turn, IPv4 first, otherwise in the order of the answer: a family that leads nowhere costs one attempt
/// before the other gets its chance.
pub(super) fn families_in_turn(addresses: Vec<JudgedAddress>) -> Vec<JudgedAddress> {
    let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.socket_addr().is_ipv4());
    let (mut v4, mut v6) = (v4.into_iter(), v6.into_iter());
    let mut in_turn = Vec::new();
    loop {
        let pair = (v4.next(), v6.next());
        if pair == (None, None) {
            return in_turn;
        }
        in_turn.extend(pair.0.into_iter().chain(pair.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::AddressPolicy;

    fn record(priority: u16, weight: u16, value: &'static str) -> Weighted<&'static str> {
        Weighted { priority, weight, value }
    }

    #[test]
    fn lower_priority_comes_first_whatever_the_dice_say() {
        for shown in [0, 1, 50, 1000, u32::MAX] {
            let records = vec![record(20, 900, "c"), record(10, 0, "a"), record(15, 1, "b")];
            assert_eq!(by_priority_and_weight(records, 16, &mut |n| shown.min(n)), ["a", "b", "c"]);
        }
    }

    #[test]
    fn inside_one_priority_the_chance_is_the_weight() {
        // Every number the dice can show, once: 1 of weight 1, 99 of weight 99, and 0 goes to weight 0.
        let mut first = std::collections::HashMap::new();
        for shown in 0..=100 {
            let records = vec![record(5, 99, "big"), record(5, 1, "small"), record(5, 0, "none"), record(9, 0, "last")];
            let mut rolls = vec![0, 0, 0, shown];
            let drawn = by_priority_and_weight(records, 16, &mut |_| rolls.pop().unwrap());
            assert_eq!(drawn.len(), 4);
            assert_eq!(drawn[3], "last");
            *first.entry(drawn[0]).or_insert(0) += 1;
        }
        assert_eq!((first["none"], first["small"], first["big"]), (1, 1, 99));
    }

    #[test]
    fn no_more_than_the_limit_are_drawn() {
        let records: Vec<_> = (0..2000).map(|_| record(1, u16::MAX, "x")).collect();
        assert_eq!(by_priority_and_weight(records, 16, &mut |n| n).len(), 16);
    }

    #[test]
    fn families_take_turns_and_ipv4_begins() {
        let judged = |texts: &[&str]| {
            let ips = texts.iter().map(|text| text.parse().unwrap());
            AddressPolicy::default().judge_all(ips, 8448).unwrap()
        };
        let mixed = judged(&["2a0e::1", "2a0e::2", "44.0.0.1", "2a0e::3", "44.0.0.2"]);
        assert_eq!(families_in_turn(mixed), judged(&["44.0.0.1", "2a0e::1", "44.0.0.2", "2a0e::2", "2a0e::3"]));
    }
}
