//! The run queue: tickets by account and host, so that no account or host keeps another waiting.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, Timestamp};
use crate::queue::{Capacity, FULL_SHARE, MAX_TICKETS, TakenTickets};
use crate::runtime::count_down;
use crate::telemetry::metrics::TICKETS_DROPPED;

/// Tickets that wait for their start, and tickets that wait for capacity.
#[derive(Default)]
pub(super) struct MemoryRunQueue {
    queued: HashSet<JobId>,
    /// The number of queued tickets of each account.
    accounts: HashMap<AccountId, usize>,
    later: BTreeMap<(Timestamp, JobId), Ticket>,
    ready: TurnQueues<AccountId, TurnQueues<HostKey, VecDeque<Ticket>>>,
}

/// Queues by key, visited in turn.
struct TurnQueues<K, Q> {
    queues: HashMap<K, Q>,
    turn: VecDeque<K>,
}

impl<K, Q> Default for TurnQueues<K, Q> {
    fn default() -> Self {
        Self { queues: HashMap::new(), turn: VecDeque::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, Q: Default> TurnQueues<K, Q> {
    /// Returns the queue of `key`. A new one joins the round at its end.
    fn queue(&mut self, key: K) -> &mut Q {
        self.queues.entry(key).or_insert_with(|| {
            self.turn.push_back(key);
            Q::default()
        })
    }

    /// Asks each queue once, in turn, until one gives a ticket. `take` also returns `true` if its
    /// queue is empty now, which then leaves the round.
    fn take(
        &mut self,
        mut take: impl FnMut(K, &mut Q) -> (Option<Ticket>, bool),
    ) -> Option<Ticket> {
        for _ in 0..self.turn.len() {
            let key = self.turn.pop_front()?;
            let (ticket, emptied) = take(key, self.queues.get_mut(&key)?);
            if emptied {
                self.queues.remove(&key);
            } else {
                self.turn.push_back(key);
            }
            if ticket.is_some() {
                return ticket;
            }
        }
        None
    }
}

impl MemoryRunQueue {
    pub(super) fn push(&mut self, tickets: &[Ticket]) {
        let mut dropped = 0;
        for ticket in tickets {
            if self.queued.contains(&ticket.job) {
                continue;
            }
            if !self.has_room_for(ticket.account) {
                dropped += 1;
                continue;
            }
            self.queued.insert(ticket.job);
            *self.accounts.entry(ticket.account).or_default() += 1;
            self.later.insert((ticket.start, ticket.job), *ticket);
        }
        TICKETS_DROPPED.add(dropped);
    }

    fn has_room_for(&self, account: AccountId) -> bool {
        let own = self.accounts.get(&account).copied().unwrap_or(0);
        let most = if own < FULL_SHARE { 2 * MAX_TICKETS } else { MAX_TICKETS };
        self.queued.len() < most
    }

    pub(super) fn take(&mut self, now: Timestamp, capacity: &Capacity) -> TakenTickets {
        self.make_ready(now);
        let (mut left, mut taken) = (capacity.clone(), Vec::new());
        while left.total > 0 {
            let ticket = self.ready.take(|account, hosts| {
                if left.of_account(account) == 0 {
                    return (None, false);
                }
                let ticket = hosts.take(|host, queue| {
                    let ticket = (left.of_host(host) > 0).then(|| queue.pop_front()).flatten();
                    (ticket, queue.is_empty())
                });
                (ticket, hosts.turn.is_empty())
            });
            let Some(ticket) = ticket else { break };
            left.use_up(&ticket);
            self.queued.remove(&ticket.job);
            count_down(&mut self.accounts, ticket.account);
            taken.push(ticket);
        }
        (taken, self.later.keys().next().map(|(start, _)| *start))
    }

    /// Moves tickets that may start by now to the queue of their account and host, oldest first.
    fn make_ready(&mut self, now: Timestamp) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ticket = entry.remove();
            self.ready.queue(ticket.account).queue(ticket.host).push_back(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_takes_what_is_an_accounts_share_and_never_twice_as_much() {
        let at = Timestamp::from_millis(0);
        let ticket = |account: u128, n: usize| Ticket {
            job: JobId::new(at, account << 32 | n as u128),
            shard: crate::domain::shard::ShardId(0),
            account: AccountId::new(at, account),
            host: HostKey(1),
            start: at,
        };
        let mut queue = MemoryRunQueue::default();
        let many: Vec<_> = (0..MAX_TICKETS + 9).map(|n| ticket(1, n)).collect();
        queue.push(&many);
        assert_eq!(queue.queued.len(), MAX_TICKETS);
        let few: Vec<_> = (0..9).map(|n| ticket(2, n)).collect();
        queue.push(&few);
        let capacity =
            Capacity { total: 18, per_account: 100, per_host: 100, ..Capacity::default() };
        let (taken, _) = queue.take(at, &capacity);
        let of_few = taken.iter().filter(|ticket| ticket.account == few[0].account).count();
        assert_eq!((taken.len(), of_few), (18, 9), "in turn");
        assert_eq!(queue.accounts.len(), 1);
        queue.push(&many);
        assert_eq!(queue.queued.len(), MAX_TICKETS);
        let crowd: Vec<_> = (3..MAX_TICKETS as u128 + 12).map(|n| ticket(n, 0)).collect();
        queue.push(&crowd);
        assert_eq!(queue.queued.len(), 2 * MAX_TICKETS);
    }
}
