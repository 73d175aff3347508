//! Divides the capacity among shards that are asked at once, so that together they cannot exceed
//! it.

use std::collections::HashMap;

use crate::queue::Capacity;

/// Returns the part of `capacity` for the shard at `position` of `shards`. The parts add up to the
/// capacity.
pub(super) fn part(capacity: &Capacity, position: usize, shards: usize) -> Capacity {
    let part = |value: usize| value / shards + usize::from(position < value % shards);
    Capacity {
        total: part(capacity.total),
        per_account: part(capacity.per_account),
        accounts: capacity
            .accounts
            .iter()
            .map(|(account, capacity)| (*account, part(*capacity)))
            .collect(),
        per_host: part(capacity.per_host),
        hosts: capacity.hosts.iter().map(|(host, capacity)| (*host, part(*capacity))).collect(),
    }
}

/// Returns those of `capacities` that can matter where at most `most` tickets are handed out. The
/// others limit these tickets just as `unnamed` does, the capacity of keys that are not in
/// `capacities`.
pub(super) fn binding<K>(
    capacities: &HashMap<K, usize>,
    unnamed: usize,
    most: usize,
) -> impl Iterator<Item = (&K, usize)> {
    let named = capacities.iter().map(|(name, capacity)| (name, *capacity));
    named.filter(move |(_, capacity)| (*capacity).min(most) != unnamed.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ticket::HostKey;

    #[test]
    fn accounts_that_hold_back_no_ticket_are_not_named() {
        let capacities = HashMap::from([('a', 0), ('b', 3), ('c', 4), ('d', 9)]);
        let named = |unnamed, most| {
            let mut named: Vec<char> =
                binding(&capacities, unnamed, most).map(|(name, _)| *name).collect();
            named.sort_unstable();
            named.into_iter().collect::<String>()
        };
        assert_eq!(named(9, 1), "a");
        assert_eq!(named(9, 4), "ab");
        assert_eq!(named(9, 20), "abc");
        assert_eq!(named(4, 20), "abd", "some may have more");
        assert_eq!(named(0, 20), "bcd");
    }

    #[test]
    fn the_parts_add_up() {
        let hosts = HashMap::from([(HostKey(1), 2)]);
        let capacity =
            Capacity { total: 10, per_account: 4, per_host: 3, hosts, ..Capacity::default() };
        let parts: Vec<_> = (0..4).map(|position| part(&capacity, position, 4)).collect();
        assert_eq!(parts.iter().map(|part| part.total).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(parts.iter().map(|part| part.per_account).sum::<usize>(), 4);
        assert_eq!(parts.iter().map(|part| part.per_host).sum::<usize>(), 3);
        assert_eq!(parts.iter().map(|part| part.hosts[&HostKey(1)]).sum::<usize>(), 2);
    }
}
