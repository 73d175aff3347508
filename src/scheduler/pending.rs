//! The due ticks of the led shards that have not been fired, by account. Batches take turns between
//! the accounts, so that an account with many schedules does not delay one with few.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::OwnedSchedule;
use crate::runtime::count_down;

/// A due tick of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueTick {
    pub(super) shard: ShardId,
    pub(super) member: OwnedSchedule,
    /// The tick according to the due index.
    pub(super) tick: Timestamp,
}

/// The number of ticks that hardly make a batch slower.
const FEW: usize = 50;

/// The due ticks in the order in which they are fired.
#[derive(Default)]
pub(super) struct PendingTicks {
    accounts: HashMap<AccountId, VecDeque<DueTick>>,
    /// The accounts with waiting ticks. The next one is first.
    turn: VecDeque<AccountId>,
    /// The schedules that wait or are being fired.
    schedules: HashSet<ScheduleId>,
    /// The number of schedules of each shard that wait or are being fired.
    shards: HashMap<ShardId, usize>,
    waiting: usize,
}

impl PendingTicks {
    /// Adds the due ticks of a shard, except for schedules that already wait or are being fired.
    pub(super) fn add(&mut self, shard: ShardId, due: Vec<(OwnedSchedule, Timestamp)>) {
        let before = self.waiting;
        self.schedules.reserve(due.len());
        for (member, tick) in due {
            if !self.schedules.insert(member.schedule) {
                continue;
            }
            self.waiting += 1;
            let waiting = self.accounts.entry(member.account).or_default();
            if waiting.is_empty() {
                self.turn.push_back(member.account);
            }
            waiting.push_back(DueTick { shard, member, tick });
        }
        if self.waiting > before {
            *self.shards.entry(shard).or_default() += self.waiting - before;
        }
    }

    /// Takes the next ticks to fire, one per account in turn. The caller must pass them to
    /// [`done`](Self::done) later.
    ///
    /// An account that has far more ticks than the others does not make their batch larger, and so
    /// slower: if it is the only one left, with many more ticks than were taken, they are for the
    /// next batch.
    pub(super) fn take(&mut self, most: usize) -> Vec<DueTick> {
        let mut taken = Vec::with_capacity(most.min(self.waiting));
        let is_mixed = self.turn.len() > 1;
        while taken.len() < most && !(is_mixed && self.is_only_account(taken.len())) {
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

    /// Returns `true` if only one account has waiting ticks, and many more than the `taken` ones,
    /// which are still counted.
    fn is_only_account(&self, taken: usize) -> bool {
        self.turn.len() == 1 && self.waiting - taken > taken.max(FEW)
    }

    /// Releases ticks that were taken: they have been fired, or are to be read from the index
    /// again.
    pub(super) fn done(&mut self, taken: &[DueTick]) {
        for due in taken {
            if self.schedules.remove(&due.member.schedule) {
                count_down(&mut self.shards, due.shard);
            }
        }
    }

    /// Releases all ticks that are being fired. A pass that panicked has left them behind.
    pub(super) fn release_all(&mut self) {
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

    /// Removes the waiting ticks of these shards.
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

    /// Returns the number of waiting ticks.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Returns `true` if no tick of a shard waits or is being fired.
    pub(super) fn has_none_of(&self, shard: ShardId) -> bool {
        !self.shards.contains_key(&shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_900_000_000_000);

    fn member(account: u128, schedule: u128) -> (OwnedSchedule, Timestamp) {
        let (schedule, account) = (ScheduleId::new(AT, schedule), AccountId::new(AT, account));
        (OwnedSchedule { schedule, account }, AT)
    }

    fn accounts(taken: &[DueTick]) -> Vec<AccountId> {
        taken.iter().map(|due| due.member.account).collect()
    }

    #[test]
    fn accounts_take_turns_in_any_order_of_arrival_and_in_any_shard() {
        let mut pending = PendingTicks::default();
        pending.add(ShardId(0), (0..1_000).map(|n| member(1, n)).collect());
        pending.add(ShardId(1), vec![member(2, 2_000), member(3, 2_001), member(2, 2_002)]);
        let taken = accounts(&pending.take(6));
        let turns = [1, 2, 3, 1, 2].map(|n| AccountId::new(AT, n));
        assert_eq!(taken, turns, "the others need not wait for more of the first");
        assert_eq!(pending.len(), 998);
        assert_eq!(pending.take(5_000).len(), 998);
        assert_eq!(pending.take(1), []);
    }

    #[test]
    fn a_few_ticks_more_of_one_account_are_in_the_same_batch() {
        let mut pending = PendingTicks::default();
        pending.add(ShardId(0), (0..5).map(|n| member(1, n)).collect());
        pending.add(ShardId(1), vec![member(2, 10), member(3, 11)]);
        assert_eq!(pending.take(500).len(), 7);
    }

    #[test]
    fn a_tick_that_is_being_fired_is_not_added_again() {
        let mut pending = PendingTicks::default();
        pending.add(ShardId(0), vec![member(1, 1), member(1, 1), member(1, 2)]);
        let taken = pending.take(1);
        pending.add(ShardId(0), vec![member(1, 1), member(1, 2)]);
        assert_eq!(pending.len(), 1);
        assert!(!pending.has_none_of(ShardId(0)));
        pending.done(&taken);
        pending.done(&taken);
        let rest = pending.take(9);
        assert_eq!(rest.len(), 1);
        pending.done(&rest);
        assert!(pending.has_none_of(ShardId(0)));
        pending.add(ShardId(0), vec![member(1, 1)]);
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn a_shard_that_is_forgotten_takes_nothing_of_another_with_it() {
        let mut pending = PendingTicks::default();
        pending.add(ShardId(0), vec![member(1, 1), member(2, 2)]);
        pending.add(ShardId(1), vec![member(1, 3)]);
        pending.forget(&HashSet::from([ShardId(0)]));
        assert!(pending.has_none_of(ShardId(0)) && !pending.has_none_of(ShardId(1)));
        let left = pending.take(9);
        assert_eq!(accounts(&left), [AccountId::new(AT, 1)]);
        assert_eq!(left[0].shard, ShardId(1));
    }
}
