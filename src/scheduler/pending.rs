//! What is due in the led shards and has not been fired, by account: batches go round the accounts,
//! so that nobody's many schedules keep another's few waiting.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::Member;

/// A schedule that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueTick {
    pub(super) shard: ShardId,
    pub(super) member: Member,
    /// The tick, as the due index has it.
    pub(super) tick: Timestamp,
}

/// What is due, in the order in which it is fired.
#[derive(Default)]
pub(super) struct Pending {
    accounts: HashMap<AccountId, VecDeque<DueTick>>,
    /// Accounts with something that waits, the next one first.
    turn: VecDeque<AccountId>,
    /// What waits or is being fired.
    schedules: HashSet<ScheduleId>,
    /// How many of a shard's schedules wait or are being fired.
    shards: HashMap<ShardId, usize>,
    waiting: usize,
}

impl Pending {
    /// Adds what is due in a shard, but for what waits or is being fired.
    pub(super) fn add(&mut self, shard: ShardId, due: Vec<(Member, Timestamp)>) {
        for (member, tick) in due {
            if !self.schedules.insert(member.schedule) {
                continue;
            }
            *self.shards.entry(shard).or_default() += 1;
            self.waiting += 1;
            let waiting = self.accounts.entry(member.account).or_default();
            if waiting.is_empty() {
                self.turn.push_back(member.account);
            }
            waiting.push_back(DueTick { shard, member, tick });
        }
    }

    /// Takes what is fired next, one schedule of each account after the other. It has to be given to
    /// [`done`](Self::done) later.
    pub(super) fn take(&mut self, most: usize) -> Vec<DueTick> {
        let mut taken = Vec::with_capacity(most.min(self.waiting));
        while taken.len() < most {
            let Some(account) = self.turn.pop_front() else { break };
            let Some(waiting) = self.accounts.get_mut(&account) else { continue };
            taken.extend(waiting.pop_front());
            if waiting.is_empty() {
                self.accounts.remove(&account);
            } else {
                self.turn.push_back(account);
            }
        }
        self.waiting -= taken.len();
        taken
    }

    /// Lets go of what was taken: it has been fired, or is to be looked for in the index again.
    pub(super) fn done(&mut self, taken: &[DueTick]) {
        for due in taken {
            if self.schedules.remove(&due.member.schedule) {
                self.count_down(due.shard);
            }
        }
    }

    /// Lets go of what is being fired: by a round that has panicked.
    pub(super) fn land(&mut self) {
        if self.schedules.len() == self.waiting {
            return;
        }
        let waiting: Vec<_> = self.accounts.values().flatten().copied().collect();
        self.schedules = waiting.iter().map(|due| due.member.schedule).collect();
        self.shards.clear();
        for due in waiting {
            *self.shards.entry(due.shard).or_default() += 1;
        }
    }

    /// Lets go of what waits in these shards.
    pub(super) fn forget(&mut self, shards: &HashSet<ShardId>) {
        let mut gone = Vec::new();
        for waiting in self.accounts.values_mut() {
            let kept = waiting.iter().filter(|due| !shards.contains(&due.shard));
            let kept: VecDeque<_> = kept.copied().collect();
            let left = std::mem::replace(waiting, kept);
            gone.extend(left.into_iter().filter(|due| shards.contains(&due.shard)));
        }
        self.waiting -= gone.len();
        self.done(&gone);
        self.accounts.retain(|_, waiting| !waiting.is_empty());
        self.turn.retain(|account| self.accounts.contains_key(account));
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing of a shard waits or is being fired.
    pub(super) fn is_through(&self, shard: ShardId) -> bool {
        !self.shards.contains_key(&shard)
    }

    fn count_down(&mut self, shard: ShardId) {
        if let Some(count) = self.shards.get_mut(&shard) {
            *count -= 1;
            if *count == 0 {
                self.shards.remove(&shard);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_900_000_000_000);

    fn member(account: u128, schedule: u128) -> (Member, Timestamp) {
        let (schedule, account) = (ScheduleId::new(AT, schedule), AccountId::new(AT, account));
        (Member { schedule, account }, AT)
    }

    fn accounts(taken: &[DueTick]) -> Vec<AccountId> {
        taken.iter().map(|due| due.member.account).collect()
    }

    #[test]
    fn accounts_take_turns_whoever_came_first_and_in_whatever_shard() {
        let mut pending = Pending::default();
        pending.add(ShardId(0), (0..1_000).map(|n| member(1, n)).collect());
        pending.add(ShardId(1), vec![member(2, 2_000), member(3, 2_001), member(2, 2_002)]);
        let taken = accounts(&pending.take(6));
        let turns = [1, 2, 3, 1, 2, 1].map(|n| AccountId::new(AT, n));
        assert_eq!(taken, turns);
        assert_eq!(pending.len(), 997);
        assert_eq!(pending.take(5_000).len(), 997);
        assert_eq!(pending.take(1), []);
    }

    #[test]
    fn what_is_being_fired_is_not_added_again_until_it_is_done() {
        let mut pending = Pending::default();
        pending.add(ShardId(0), vec![member(1, 1), member(1, 1), member(1, 2)]);
        let taken = pending.take(1);
        pending.add(ShardId(0), vec![member(1, 1), member(1, 2)]);
        assert_eq!(pending.len(), 1);
        assert!(!pending.is_through(ShardId(0)));
        pending.done(&taken);
        pending.done(&taken);
        let rest = pending.take(9);
        assert_eq!(rest.len(), 1);
        pending.done(&rest);
        assert!(pending.is_through(ShardId(0)));
        pending.add(ShardId(0), vec![member(1, 1)]);
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn a_shard_that_is_forgotten_takes_nothing_of_another_with_it() {
        let mut pending = Pending::default();
        pending.add(ShardId(0), vec![member(1, 1), member(2, 2)]);
        pending.add(ShardId(1), vec![member(1, 3)]);
        pending.forget(&HashSet::from([ShardId(0)]));
        assert!(pending.is_through(ShardId(0)) && !pending.is_through(ShardId(1)));
        let left = pending.take(9);
        assert_eq!(accounts(&left), [AccountId::new(AT, 1)]);
        assert_eq!(left[0].shard, ShardId(1));
    }
}
