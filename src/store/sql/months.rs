//! Counts the jobs that accounts have made in a month, in the background. An account and a month
//! are counted once at a time, however many callers ask for it, and even if no caller waits for it.
//!
//! Most accounts have few jobs and are counted together. Accounts with many jobs are counted hour
//! by hour, one statement at a time, so that one connection is enough and no statement takes long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use tokio::sync::{Semaphore, oneshot};

use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::Mutex;
use crate::runtime::{TaskKind, Tasks};
use crate::store::contract::accounts::start_of_month;
use crate::store::{Result, StoreError, StoreErrorKind};

/// The number of jobs in one day from which an account is counted on its own.
const FEW: i64 = 1_000;
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);
const OPERATION: &str = "begin_months";

/// The statements by which an adapter counts jobs.
#[async_trait]
pub(in crate::store) trait MonthCounter: Send + Sync {
    /// Returns the accounts that have no counter of this month.
    async fn missing(&self, month: i64, accounts: Vec<AccountId>) -> Result<Vec<AccountId>>;

    /// Returns how many jobs each of the accounts has made from the first instant to before the
    /// second one, counted up to `most`, in the order of the accounts.
    async fn made(
        &self,
        accounts: Vec<AccountId>,
        within: (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<i64>>;

    /// Creates the missing counters of these accounts. A counter starts with the number of jobs
    /// made or, if that is larger, with the value that it had before it was forgotten. Counters of
    /// months before [`oldest_kept`] are deleted, so that an account has only a few.
    async fn begin(&self, month: i64, made: Vec<(AccountId, i64)>) -> Result<()>;
}

/// Returns the oldest month whose counters are kept when that of `month` is created: the same month
/// one year before.
pub(in crate::store) fn oldest_kept(month: i64) -> i64 {
    month - 100
}

/// The result of a count, shared by all callers that wait for it.
type SharedCount = Shared<BoxFuture<'static, std::result::Result<(), Arc<StoreError>>>>;

/// A method of counting. It returns the accounts that need another method.
type CountMethod =
    fn(Months, Timestamp, Vec<AccountId>) -> BoxFuture<'static, Result<Vec<AccountId>>>;

/// The counts that are under way. Clones share them.
#[derive(Clone)]
pub(in crate::store) struct Months {
    tasks: Tasks,
    counter: Arc<dyn MonthCounter>,
    under_way: Arc<Mutex<HashMap<(AccountId, i64), SharedCount>>>,
    /// The permit for statements that count an account with many jobs: one at a time.
    turn: Arc<Semaphore>,
}

/// Accounts that are being counted. Dropping it removes them from the counts under way, however the
/// count has ended.
struct CountEntry {
    months: Months,
    month: i64,
    accounts: Vec<AccountId>,
}

impl Months {
    pub(in crate::store) fn new(tasks: Tasks, counter: Arc<dyn MonthCounter>) -> Self {
        Self { tasks, counter, under_way: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Starts a count of the accounts that are not counted yet, and waits for the counts. If the
    /// future is dropped, the counts continue.
    pub(in crate::store) async fn begin(
        &self,
        now: Timestamp,
        accounts: &[AccountId],
    ) -> Result<()> {
        let month = month_of(now);
        self.start(now, accounts, |months, now, all| months.count_few(now, all).boxed());
        loop {
            let counts: Vec<SharedCount> = {
                let under_way = self.under_way.lock();
                let keys = accounts.iter().map(|account| (*account, month));
                keys.filter_map(|key| under_way.get(&key).cloned()).collect()
            };
            if counts.is_empty() {
                return Ok(());
            }
            let ended: std::result::Result<(), _> = join_all(counts).await.into_iter().collect();
            ended.map_err(|error| error.for_another())?;
        }
    }

    /// Starts a count of those accounts that are not being counted.
    fn start(&self, now: Timestamp, accounts: &[AccountId], count: CountMethod) {
        let month = month_of(now);
        let mut under_way = self.under_way.lock();
        let is_new = |account: &&AccountId| !under_way.contains_key(&(**account, month));
        let accounts: Vec<_> = accounts.iter().filter(is_new).copied().collect();
        if accounts.is_empty() {
            return;
        }
        let (tell, ended) = oneshot::channel();
        let ended = ended.map(|ended| {
            let lost =
                |_| StoreError::new(OPERATION, StoreErrorKind::Unavailable, "the count was lost");
            ended.map_err(lost).flatten().map_err(Arc::new)
        });
        let ended: SharedCount = ended.boxed().shared();
        under_way.extend(accounts.iter().map(|account| ((*account, month), ended.clone())));
        drop(under_way);
        let (months, entered) =
            (self.clone(), CountEntry { months: self.clone(), month, accounts: accounts.clone() });
        self.tasks.spawn(TaskKind::Command, async move {
            let counted = count(months.clone(), now, accounts).await;
            drop(entered);
            let ended = counted.map(|many| {
                for account in many {
                    months.start(now, &[account], |months, now, one| {
                        months.count_many(now, one).boxed()
                    });
                }
            });
            // All receivers may be gone.
            let _ = tell.send(ended);
        });
    }

    /// Counts the accounts that have few jobs, and returns those that have many.
    async fn count_few(self, now: Timestamp, accounts: Vec<AccountId>) -> Result<Vec<AccountId>> {
        let month = month_of(now);
        let mut few = self.counter.missing(month, accounts).await?;
        let (mut made, mut many) = (HashMap::new(), Vec::new());
        let mut day = start_of_month(now);
        while day <= now && !few.is_empty() {
            let within = (day, day.plus(DAY));
            let of_day = self.counter.made(few.clone(), within, FEW).await?;
            for (account, jobs) in few.iter().zip(of_day) {
                *made.entry(*account).or_insert(0) += jobs;
                many.extend((jobs >= FEW).then_some(*account));
            }
            few.retain(|account| !many.contains(account));
            day = day.plus(DAY);
        }
        let counted = few.iter().map(|account| (*account, made[account])).collect();
        self.counter.begin(month, counted).await?;
        Ok(many)
    }

    /// Counts accounts with any number of jobs, hour by hour.
    async fn count_many(self, now: Timestamp, accounts: Vec<AccountId>) -> Result<Vec<AccountId>> {
        for account in accounts {
            let (mut hour, mut made) = (start_of_month(now), 0);
            while hour <= now {
                let turn = self.turn.acquire().await;
                let within = (hour, hour.plus(HOUR));
                let of_hour = self.counter.made(vec![account], within, i64::MAX).await?;
                drop(turn);
                made += of_hour.into_iter().sum::<i64>();
                hour = hour.plus(HOUR);
            }
            self.counter.begin(month_of(now), vec![(account, made)]).await?;
        }
        Ok(Vec::new())
    }

    fn leave(&self, month: i64, accounts: &[AccountId]) {
        let mut under_way = self.under_way.lock();
        for account in accounts {
            under_way.remove(&(*account, month));
        }
    }
}

impl Drop for CountEntry {
    fn drop(&mut self) {
        self.months.leave(self.month, &self.accounts);
    }
}
