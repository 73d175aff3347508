//! The jobs of a month, of accounts whose plan limits them: reserved in blocks, so that the store is
//! seldom asked. Accounts without such a limit are not known here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::plan::{Plans, month_of};
use crate::domain::{AccountId, Timestamp};
use crate::store::{Candidate, Granted, Result, SharedStore, Wanted};

/// The most jobs of an account that are reserved ahead.
const AHEAD: u32 = 1_000;
/// How long an account that has used up its month is not asked for again.
const REST: Duration = Duration::from_secs(5);

/// What is reserved and not made yet.
pub(super) struct Quotas {
    plans: Arc<Plans>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    month: i64,
    blocks: HashMap<AccountId, Block>,
}

/// What an account has left of what was reserved for it.
#[derive(Clone, Copy, Default)]
struct Block {
    quota: u64,
    left: u64,
    exhausted_at: Option<Timestamp>,
}

/// Jobs that are due, by account; only of accounts whose plan limits them.
#[derive(Debug, Default)]
pub(super) struct Due(BTreeMap<AccountId, Wanted>);

/// How many of them may be made.
pub(super) struct Allowed(BTreeMap<AccountId, u64>);

impl Quotas {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        Self { plans, state: Mutex::default() }
    }

    /// Adds the due jobs of a schedule.
    pub(super) fn add(&self, due: &mut Due, candidate: &Candidate, jobs: usize) {
        let Some(name) = &candidate.plan else { return };
        let Some(quota) = self.plans.of(name).jobs_per_month else { return };
        let account = candidate.account;
        let wanted = due.0.entry(account).or_insert(Wanted { account, quota, jobs: 0 });
        wanted.jobs = wanted.jobs.saturating_add(u32::try_from(jobs).unwrap_or(u32::MAX));
    }

    /// Takes what is due from what is reserved, and reserves more where that is not enough.
    pub(super) async fn take(
        &self,
        store: &SharedStore,
        now: Timestamp,
        due: &Due,
    ) -> Result<Allowed> {
        let (mut allowed, wanted) = self.take_reserved(now, due);
        if wanted.is_empty() {
            return Ok(allowed);
        }
        let granted = match store.reserve_jobs(now, AHEAD, &wanted).await {
            Ok(granted) => granted,
            Err(error) => {
                allowed.0.into_iter().for_each(|(account, jobs)| self.give_back(account, jobs));
                return Err(error);
            }
        };
        let mut state = self.lock();
        for (wanted, granted) in wanted.iter().filter_map(|wanted| {
            Some((wanted, granted.iter().find(|granted| granted.account == wanted.account)?))
        }) {
            tell(wanted, granted);
            let taken = granted.jobs.min(wanted.jobs.into());
            *allowed.0.entry(wanted.account).or_default() += taken;
            let block = state.blocks.entry(wanted.account).or_default();
            block.left += granted.jobs - taken;
            block.exhausted_at = (taken < wanted.jobs.into()).then_some(now);
        }
        Ok(allowed)
    }

    /// What is there already, and what has to be asked for.
    fn take_reserved(&self, now: Timestamp, due: &Due) -> (Allowed, Vec<Wanted>) {
        let (mut allowed, mut wanted) = (BTreeMap::new(), Vec::new());
        if due.0.is_empty() {
            return (Allowed(allowed), wanted);
        }
        let mut state = self.lock();
        if state.month != month_of(now) {
            *state = State { month: month_of(now), blocks: HashMap::new() };
        }
        for due in due.0.values() {
            let block = state.blocks.entry(due.account).or_default();
            if block.quota != due.quota {
                *block = Block { quota: due.quota, ..Block::default() };
            }
            let taken = block.left.min(due.jobs.into());
            block.left -= taken;
            allowed.insert(due.account, taken);
            let missing = due.jobs - u32::try_from(taken).unwrap_or(due.jobs);
            let rests = block.exhausted_at.is_some_and(|at| now.since(at) < REST);
            if missing > 0 && !rests {
                wanted.push(Wanted { jobs: missing, ..*due });
            }
        }
        (Allowed(allowed), wanted)
    }

    /// Puts back what was taken and not made.
    pub(super) fn give_back(&self, account: AccountId, jobs: u64) {
        if let Some(block) = self.lock().blocks.get_mut(&account) {
            block.left += jobs;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allowed {
    /// How many of `jobs` of an account may be made; all, if its plan does not limit them.
    pub(super) fn take(&mut self, account: AccountId, jobs: usize) -> usize {
        let Some(left) = self.0.get_mut(&account) else { return jobs };
        let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(jobs);
        *left -= taken as u64;
        taken
    }

    /// Whether the plan of the account limits its jobs.
    pub(super) fn limits(&self, account: AccountId) -> bool {
        self.0.contains_key(&account)
    }
}

/// Says once a month that an account has used up its jobs.
fn tell(wanted: &Wanted, granted: &Granted) {
    if granted.newly_exhausted {
        let (account, quota) = (wanted.account, wanted.quota);
        tracing::warn!(%account, quota, "the jobs of the month are used up, skipping ticks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(account: AccountId, jobs: u32) -> Due {
        Due([(account, Wanted { account, quota: 100, jobs })].into())
    }

    #[test]
    fn what_is_reserved_is_taken_first_and_can_be_given_back() {
        let now: Timestamp = "2030-01-31T23:59:59Z".parse().expect("an instant");
        let account = AccountId::new(now, 1);
        let quotas = Quotas::new(Arc::default());
        let (allowed, wanted) = quotas.take_reserved(now, &due(account, 3));
        assert_eq!((allowed.0[&account], wanted[0].jobs), (0, 3));
        quotas.give_back(account, 5);
        let (mut allowed, wanted) = quotas.take_reserved(now, &due(account, 3));
        assert_eq!((allowed.take(account, 2), allowed.take(account, 2)), (2, 1));
        assert!(wanted.is_empty() && allowed.limits(account));
        let other = AccountId::new(now, 2);
        assert_eq!((allowed.take(other, 9), allowed.limits(other)), (9, false));
        let february = now.plus(Duration::from_secs(2));
        let (_, wanted) = quotas.take_reserved(february, &due(account, 1));
        assert_eq!(wanted.len(), 1, "a block is of one month");
    }
}
