//! Dividing the room among shards that are asked at once, so that together they cannot hand out
//! more than there is.

use crate::domain::ticket::Ticket;
use crate::queue::Room;

/// The part of `room` for the shard at `place` of `shards`; the parts add up to it.
pub(super) fn part(room: &Room, place: usize, shards: usize) -> Room {
    let part = |value: usize| value / shards + usize::from(place < value % shards);
    Room {
        total: part(room.total),
        per_account: part(room.per_account),
        accounts: room.accounts.iter().map(|(account, room)| (*account, part(*room))).collect(),
        per_host: part(room.per_host),
        hosts: room.hosts.iter().map(|(host, room)| (*host, part(*room))).collect(),
    }
}

/// Takes away what tickets need.
pub(super) fn use_up(room: &mut Room, tickets: &[Ticket]) {
    for ticket in tickets {
        room.total = room.total.saturating_sub(1);
        let account = room.accounts.entry(ticket.account).or_insert(room.per_account);
        *account = account.saturating_sub(1);
        let host = room.hosts.entry(ticket.host).or_insert(room.per_host);
        *host = host.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::domain::ticket::HostKey;

    #[test]
    fn the_parts_add_up() {
        let hosts = HashMap::from([(HostKey(1), 2)]);
        let room = Room { total: 10, per_account: 4, per_host: 3, hosts, ..Room::default() };
        let parts: Vec<_> = (0..4).map(|place| part(&room, place, 4)).collect();
        assert_eq!(parts.iter().map(|part| part.total).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(parts.iter().map(|part| part.per_account).sum::<usize>(), 4);
        assert_eq!(parts.iter().map(|part| part.per_host).sum::<usize>(), 3);
        assert_eq!(parts.iter().map(|part| part.hosts[&HostKey(1)]).sum::<usize>(), 2);
    }
}
