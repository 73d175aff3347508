//! The monthly job quotas of accounts whose plan has one. Jobs are reserved in blocks, so that the
//! store is rarely asked. Accounts without a quota are not tracked here.
//!
//! If the number of jobs that an account may have cannot be determined now, the schedules of that
//! account stay due. The schedules of all other accounts fire.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::SchedulerContext;
use super::reserving::ReservationAnswers;
use crate::domain::plan::{Plans, month_of};
use crate::domain::{AccountId, JobId, Timestamp};
use crate::runtime::Mutex;
use crate::store::{Candidate, GrantedJobs, WantedJobs};
use crate::telemetry::metrics::QUOTAS_EXHAUSTED;

/// The pause before the store is asked again for an account that has used up its month.
const BACK_OFF: Duration = Duration::from_secs(5);
/// The pause before the next try for an account without an answer of the store.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// The maximum time that a batch waits for the count of an account's jobs, the first time that it
/// is missing, before the other schedules fire. The count continues in the background, and later
/// batches look for its result.
const FIRST_COUNT_TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum time that later batches wait: enough to make sure that a count is running.
const LATER_COUNT_TIMEOUT: Duration = Duration::from_millis(5);

/// The jobs that are reserved and not made yet.
pub(super) struct Quotas {
    plans: Arc<Plans>,
    state: Mutex<QuotaState>,
}

#[derive(Default)]
struct QuotaState {
    /// The newest month for which jobs were requested.
    month: i64,
    /// The blocks by account and month. At the turn of the month, some batches still use the old
    /// one.
    blocks: HashMap<(AccountId, i64), ReservedJobs>,
    /// Jobs that may have been made, because the response of the store was lost, and the months
    /// from which they were taken.
    doubted: HashMap<JobId, i64>,
    /// The plans that are not configured and were already logged.
    logged: BTreeSet<String>,
}

impl QuotaState {
    fn give_back(&mut self, account: AccountId, month: i64, jobs: u64) {
        if let Some(block) = self.blocks.get_mut(&(account, month)) {
            block.left += jobs;
        }
    }
}

/// The rest of the jobs that were reserved for an account.
#[derive(Clone, Copy, Default)]
struct ReservedJobs {
    quota: u64,
    left: u64,
    /// The time at which its month was found used up.
    exhausted_at: Option<Timestamp>,
    /// The time before which the store is not asked again how many jobs there may be.
    waits_until: Option<Timestamp>,
    /// `true` if a batch has already waited for the count of its jobs.
    was_awaited: bool,
}

/// The due jobs by account, only of accounts whose plan has a quota.
#[derive(Debug, Default)]
pub(super) struct DueJobs {
    wanted: BTreeMap<AccountId, WantedJobs>,
    /// The accounts whose plan is not configured.
    unknown: BTreeSet<AccountId>,
}

/// The share of its due jobs that an account may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobShare {
    /// The number of jobs that may be made.
    Jobs(u64),
    /// Not known yet. Ask again after this time.
    Later(Duration),
}

/// The number of due jobs that may be made, by account.
#[derive(Default)]
pub(super) struct AllowedJobs {
    month: i64,
    shares: BTreeMap<AccountId, JobShare>,
}

impl Quotas {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        Self { plans, state: Mutex::default() }
    }

    /// Adds the due jobs of a schedule.
    pub(super) fn add(&self, due: &mut DueJobs, candidate: &Candidate, jobs: usize) {
        let Some(name) = &candidate.plan else { return };
        let account = candidate.account;
        let Some(plan) = self.plans.named(name) else {
            if self.state.lock().logged.insert(name.clone()) {
                tracing::error!(plan = name, "a plan is not configured, its accounts' ticks wait");
            }
            due.unknown.insert(account);
            return;
        };
        let Some(quota) = plan.jobs_per_month else { return };
        let wanted = due.wanted.entry(account).or_insert(WantedJobs { account, quota, jobs: 0 });
        wanted.jobs = wanted.jobs.saturating_add(u32::try_from(jobs).unwrap_or(u32::MAX));
    }

    /// Takes the due jobs from the reserved blocks, and reserves more where a block is too small.
    pub(super) async fn take(
        &self,
        context: &SchedulerContext,
        now: Timestamp,
        due: &DueJobs,
    ) -> AllowedJobs {
        let (mut allowed, wanted) = self.take_reserved(now, due);
        if wanted.is_empty() {
            return allowed;
        }
        let ReservationAnswers { granted, waits, .. } = self.reserve(context, now, &wanted).await;
        let mut state = self.state.lock();
        for wanted in &wanted {
            let block = state.blocks.entry((wanted.account, allowed.month)).or_default();
            let share = allowed.shares.entry(wanted.account).or_insert(JobShare::Jobs(0));
            let JobShare::Jobs(held) = *share else { continue };
            if let Some(granted) = granted.get(&wanted.account) {
                log_quota(wanted, granted);
                let taken = granted.jobs.min(wanted.jobs.into());
                *share = JobShare::Jobs(held + taken);
                block.left += granted.jobs - taken;
                block.exhausted_at = (taken < wanted.jobs.into()).then_some(now);
            } else {
                let wait = waits.get(&wanted.account).copied().unwrap_or(RETRY_DELAY);
                block.left += held;
                block.waits_until = Some(now.plus(wait));
                *share = JobShare::Later(wait);
            }
        }
        allowed
    }

    /// Reserves as many of the jobs as possible now.
    async fn reserve<'a>(
        &self,
        context: &'a SchedulerContext,
        now: Timestamp,
        wanted: &[WantedJobs],
    ) -> ReservationAnswers<'a> {
        let mut answers = ReservationAnswers::new(context, now);
        let held = answers.ask(wanted).await;
        let is_uncounted = |wanted: &&WantedJobs| {
            !answers.granted.contains_key(&wanted.account) && !held.contains(&wanted.account)
        };
        let uncounted: Vec<WantedJobs> = wanted.iter().filter(is_uncounted).copied().collect();
        if !answers.failed && !uncounted.is_empty() {
            let timeout = if self.are_new(now, &uncounted) {
                FIRST_COUNT_TIMEOUT
            } else {
                LATER_COUNT_TIMEOUT
            };
            answers.count(&uncounted, timeout).await;
        }
        let held = wanted.iter().filter(|wanted| held.contains(&wanted.account));
        answers.wait_for(held).await;
        answers
    }

    /// Returns `true` if no batch has waited for one of these accounts yet: its count may be fast.
    fn are_new(&self, now: Timestamp, accounts: &[WantedJobs]) -> bool {
        let (month, mut state) = (month_of(now), self.state.lock());
        let is_new = |wanted: &WantedJobs| {
            let block = state.blocks.entry((wanted.account, month)).or_default();
            !std::mem::replace(&mut block.was_awaited, true)
        };
        accounts.iter().map(is_new).fold(false, |any, one| any | one)
    }

    /// Takes jobs from the reserved blocks. Returns them and the jobs that are still missing.
    fn take_reserved(&self, now: Timestamp, due: &DueJobs) -> (AllowedJobs, Vec<WantedJobs>) {
        let mut allowed = AllowedJobs { month: month_of(now), shares: BTreeMap::new() };
        let mut wanted = Vec::new();
        let unknown = due.unknown.iter().map(|account| (*account, JobShare::Later(BACK_OFF)));
        allowed.shares.extend(unknown);
        if due.wanted.is_empty() {
            return (allowed, wanted);
        }
        let mut state = self.state.lock();
        if state.month < allowed.month {
            let old = std::mem::replace(&mut state.month, allowed.month);
            state.blocks.retain(|(_, month), _| *month >= old);
            state.doubted.retain(|_, month| *month >= old);
        }
        for due in due.wanted.values() {
            let block = state.blocks.entry((due.account, allowed.month)).or_default();
            if block.quota != due.quota {
                *block = ReservedJobs { quota: due.quota, ..ReservedJobs::default() };
            }
            let taken = block.left.min(due.jobs.into());
            let missing = due.jobs - u32::try_from(taken).unwrap_or(due.jobs);
            let waits = block.waits_until.filter(|until| now < *until && missing > 0);
            if let Some(until) = waits {
                allowed.shares.insert(due.account, JobShare::Later(until.since(now)));
                continue;
            }
            block.left -= taken;
            allowed.shares.insert(due.account, JobShare::Jobs(taken));
            let backs_off = block.exhausted_at.is_some_and(|at| now.since(at) < BACK_OFF);
            if missing > 0 && !backs_off {
                wanted.push(WantedJobs { jobs: missing, ..*due });
            }
        }
        (allowed, wanted)
    }

    /// Returns jobs to their block that were taken and not made.
    pub(super) fn give_back(&self, allowed: &AllowedJobs, account: AccountId, jobs: u64) {
        self.state.lock().give_back(account, allowed.month, jobs);
    }

    /// Keeps the reservation of a job that the store may have made, because the response was lost.
    /// Only the newest reservation of a job is kept. An older one goes back to its block, so that
    /// the job counts once, however many responses are lost.
    pub(super) fn hold_uncertain(&self, allowed: &AllowedJobs, account: AccountId, job: JobId) {
        let mut state = self.state.lock();
        if let Some(month) = state.doubted.insert(job, allowed.month) {
            state.give_back(account, month, 1);
        }
    }

    /// Settles the reservation that was kept for a job, if there is one. If this try made the job,
    /// it used a reservation of its own, so the kept one goes back to its block. If it did not, an
    /// earlier try probably made the job, so the kept reservation counts as used.
    pub(super) fn resolve_uncertain(&self, account: AccountId, job: JobId, made: bool) {
        let mut state = self.state.lock();
        if let Some(month) = state.doubted.remove(&job).filter(|_| made) {
            state.give_back(account, month, 1);
        }
    }
}

impl AllowedJobs {
    /// Returns how many of an account's `jobs` may be made: all of them if its plan has no quota.
    /// The error is the time to wait if that is not known yet.
    pub(super) fn take(&mut self, account: AccountId, jobs: usize) -> Result<usize, Duration> {
        match self.shares.get_mut(&account) {
            Some(JobShare::Jobs(left)) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(jobs);
                *left -= taken as u64;
                Ok(taken)
            }
            Some(JobShare::Later(wait)) if jobs > 0 => Err(*wait),
            _ => Ok(jobs),
        }
    }

    /// Returns `true` if the plan of an account with due jobs has a quota or is not configured.
    pub(super) fn limits(&self, account: AccountId) -> bool {
        self.shares.contains_key(&account)
    }
}

/// Logs once per month that an account has used up its quota.
fn log_quota(wanted: &WantedJobs, granted: &GrantedJobs) {
    if granted.newly_exhausted {
        QUOTAS_EXHAUSTED.add(1);
        let (account, quota) = (wanted.account, wanted.quota);
        tracing::warn!(%account, quota, "the jobs of the month are used up, skipping ticks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: &str = "2030-01-31T23:59:59Z";

    fn due(account: AccountId, jobs: u32) -> DueJobs {
        let wanted = [(account, WantedJobs { account, quota: 100, jobs })].into();
        DueJobs { wanted, unknown: BTreeSet::new() }
    }

    fn quotas() -> (Quotas, AccountId, Timestamp) {
        let now: Timestamp = LAST.parse().expect("an instant");
        (Quotas::new(Arc::default()), AccountId::new(now, 1), now)
    }

    #[test]
    fn reserved_jobs_are_taken_first_and_can_be_given_back() {
        let (quotas, account, now) = quotas();
        let (allowed, wanted) = quotas.take_reserved(now, &due(account, 3));
        assert_eq!((allowed.shares[&account], wanted[0].jobs), (JobShare::Jobs(0), 3));
        quotas.give_back(&allowed, account, 5);
        let (mut allowed, wanted) = quotas.take_reserved(now, &due(account, 3));
        assert_eq!((allowed.take(account, 2), allowed.take(account, 2)), (Ok(2), Ok(1)));
        assert!(wanted.is_empty() && allowed.limits(account));
        let other = AccountId::new(now, 2);
        assert_eq!((allowed.take(other, 9), allowed.limits(other)), (Ok(9), false));
    }

    #[test]
    fn a_block_is_of_one_month_also_for_late_and_early_ticks() {
        let (quotas, account, january) = quotas();
        let february = january.plus(Duration::from_secs(2));
        let (in_january, _) = quotas.take_reserved(january, &due(account, 1));
        let (in_february, wanted) = quotas.take_reserved(february, &due(account, 1));
        assert_eq!(wanted.len(), 1);
        quotas.give_back(&in_january, account, 5);
        let (_, wanted) = quotas.take_reserved(february, &due(account, 1));
        assert_eq!(wanted.len(), 1, "what January has left is not February's");
        quotas.give_back(&in_february, account, 3);
        let (late, wanted) = quotas.take_reserved(january, &due(account, 2));
        assert_eq!((late.shares[&account], wanted.len()), (JobShare::Jobs(2), 0));
        let (next, wanted) = quotas.take_reserved(february, &due(account, 3));
        assert_eq!((next.shares[&account], wanted.len()), (JobShare::Jobs(3), 0), "still there");
    }

    #[test]
    fn a_job_whose_answer_is_lost_counts_once() {
        let (quotas, account, now) = quotas();
        let [job, other] = [JobId::new(now, 1), JobId::new(now, 2)];
        let (allowed, _) = quotas.take_reserved(now, &due(account, 1));
        let left = || quotas.state.lock().blocks[&(account, allowed.month)].left;
        // Each try has taken one job from the block before.
        for tries in 1..=3 {
            quotas.hold_uncertain(&allowed, account, job);
            assert_eq!(left(), tries - 1, "try {tries}");
        }
        quotas.resolve_uncertain(account, other, true);
        assert_eq!(left(), 2, "the other is not in doubt");
        quotas.resolve_uncertain(account, job, true);
        assert_eq!(left(), 3, "it was made at last, from what was taken at last");
        quotas.resolve_uncertain(account, job, true);
        assert_eq!(left(), 3);
        quotas.hold_uncertain(&allowed, account, other);
        quotas.resolve_uncertain(account, other, false);
        assert_eq!(left(), 3, "it had been made");
    }

    #[test]
    fn uncounted_accounts_wait_and_skips_do_not() {
        let (quotas, account, now) = quotas();
        let unknown = DueJobs { unknown: [account].into(), ..DueJobs::default() };
        let (mut allowed, wanted) = quotas.take_reserved(now, &unknown);
        assert!(wanted.is_empty());
        assert_eq!((allowed.take(account, 1), allowed.take(account, 0)), (Err(BACK_OFF), Ok(0)));
    }

    #[test]
    fn a_month_that_is_used_up_is_counted_once() {
        let exporter = crate::telemetry::metrics::install();
        let account = AccountId::from_bytes([1; 16]);
        let wanted = WantedJobs { account, quota: 100, jobs: 3 };
        for newly_exhausted in [false, true, false] {
            log_quota(&wanted, &GrantedJobs { account, jobs: 0, reserved: 100, newly_exhausted });
        }
        let text = exporter.render();
        assert!(text.contains("\npunctual_quotas_exhausted_total 1\n"), "{text}");
    }
}
