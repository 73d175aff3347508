//! The run queue: tickets by account and host, so that neither keeps another waiting.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, Timestamp};
use crate::queue::Room;

/// The most tickets kept; what comes on top is left to the sweep, which finds it in the store.
const MOST_TICKETS: usize = 250_000;

/// Tickets that wait for their start, and tickets that wait for room.
#[derive(Default)]
pub(super) struct RunQueue {
    queued: HashSet<JobId>,
    later: BTreeMap<(Timestamp, JobId), Ticket>,
    ready: Rotation<AccountId, Rotation<HostKey, VecDeque<Ticket>>>,
}

/// Queues by key, visited in turn.
struct Rotation<K, Q> {
    queues: HashMap<K, Q>,
    turn: VecDeque<K>,
}

impl<K, Q> Default for Rotation<K, Q> {
    fn default() -> Self {
        Self { queues: HashMap::new(), turn: VecDeque::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, Q: Default> Rotation<K, Q> {
    /// The queue of `key`, which joins the round at its end if it is new.
    fn queue(&mut self, key: K) -> &mut Q {
        self.queues.entry(key).or_insert_with(|| {
            self.turn.push_back(key);
            Q::default()
        })
    }

    /// Asks the queues in turn for a ticket, each once, until one gives it. `take` also says
    /// whether it has emptied its queue, which then leaves the round.
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

impl RunQueue {
    pub(super) fn push(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            if self.queued.len() < MOST_TICKETS && self.queued.insert(ticket.job) {
                self.later.insert((ticket.start, ticket.job), *ticket);
            }
        }
    }

    pub(super) fn take(&mut self, now: Timestamp, room: &Room) -> (Vec<Ticket>, Option<Timestamp>) {
        self.ripen(now);
        let mut left = Left { room, accounts: HashMap::new(), hosts: HashMap::new() };
        let mut taken = Vec::new();
        while taken.len() < room.total {
            let ticket = self.ready.take(|account, hosts| {
                if !left.has_room_for_account(account) {
                    return (None, false);
                }
                let ticket = hosts.take(|host, queue| {
                    let ticket = left.has_room_for_host(host).then(|| queue.pop_front()).flatten();
                    (ticket, queue.is_empty())
                });
                (ticket, hosts.turn.is_empty())
            });
            let Some(ticket) = ticket else { break };
            left.use_up(&ticket);
            self.queued.remove(&ticket.job);
            taken.push(ticket);
        }
        (taken, self.later.keys().next().map(|(start, _)| *start))
    }

    /// Moves what may start by now to its account's and host's queue, oldest first.
    fn ripen(&mut self, now: Timestamp) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ticket = entry.remove();
            self.ready.queue(ticket.account).queue(ticket.host).push_back(ticket);
        }
    }
}

/// The room that is left while tickets are taken.
struct Left<'a> {
    room: &'a Room,
    accounts: HashMap<AccountId, usize>,
    hosts: HashMap<HostKey, usize>,
}

impl Left<'_> {
    fn has_room_for_account(&self, account: AccountId) -> bool {
        let room = self.room.accounts.get(&account).copied().unwrap_or(self.room.per_account);
        self.accounts.get(&account).copied().unwrap_or(0) < room
    }

    fn has_room_for_host(&self, host: HostKey) -> bool {
        let room = self.room.hosts.get(&host).copied().unwrap_or(self.room.per_host);
        self.hosts.get(&host).copied().unwrap_or(0) < room
    }

    fn use_up(&mut self, ticket: &Ticket) {
        *self.accounts.entry(ticket.account).or_default() += 1;
        *self.hosts.entry(ticket.host).or_default() += 1;
    }
}
