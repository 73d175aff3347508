//! Counting the jobs that accounts have made in a month, in the background: once at a time for an
//! account and a month, however many ask for it, and whether they wait for it or not.
//!
//! Most accounts have few, and are counted together. Those that have many are counted hour by hour,
//! one after the other, so that one connection is enough and no statement takes long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use tokio::sync::{Semaphore, oneshot};

use super::accounts::start_of_month;
use super::{Result, StoreError, StoreErrorKind};
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{TaskKind, Tasks};

/// So many jobs on a day are counted together with those of other accounts.
const FEW: i64 = 1_000;
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);
const OPERATION: &str = "begin_months";

/// How an adapter counts.
#[async_trait]
pub(in crate::store) trait Counter: Send + Sync {
    /// Those of the accounts that have no counter of this month.
    async fn missing(&self, month: i64, accounts: Vec<AccountId>) -> Result<Vec<AccountId>>;

    /// How many jobs each of the accounts has made from the first instant to before the second one,
    /// counted to `most`, in the order of the accounts.
    async fn made(
        &self,
        accounts: Vec<AccountId>,
        within: (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<i64>>;

    /// Makes the counters that are not there yet, of accounts that have made so many jobs: with as
    /// many, or with what the counter had before it was forgotten. Those of months before
    /// [`oldest_kept`] go, so that an account has a few at most.
    async fn begin(&self, month: i64, made: Vec<(AccountId, i64)>) -> Result<()>;
}

/// The oldest month whose counters stay when that of `month` is made: the same one a year before.
pub(in crate::store) fn oldest_kept(month: i64) -> i64 {
    month - 100
}

/// How a count ends, for all who wait for it.
type Count = Shared<BoxFuture<'static, std::result::Result<(), Arc<StoreError>>>>;

/// A way to count, which returns those that have to be counted in another way.
type How = fn(Months, Timestamp, Vec<AccountId>) -> BoxFuture<'static, Result<Vec<AccountId>>>;

/// The counts that are under way. Clones share them.
#[derive(Clone)]
pub(in crate::store) struct Months {
    tasks: Tasks,
    counter: Arc<dyn Counter>,
    under_way: Arc<Mutex<HashMap<(AccountId, i64), Count>>>,
    /// Whose turn it is of the accounts that have many jobs.
    turn: Arc<Semaphore>,
}

/// Accounts that are being counted; dropping it ends that, however it has come to its end.
struct Entered {
    months: Months,
    month: i64,
    accounts: Vec<AccountId>,
}

impl Months {
    pub(in crate::store) fn new(tasks: Tasks, counter: Arc<dyn Counter>) -> Self {
        Self { tasks, counter, under_way: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Sees to it that the accounts are counted, and waits until they are. What is dropped is the
    /// waiting alone.
    pub(in crate::store) async fn begin(
        &self,
        now: Timestamp,
        accounts: &[AccountId],
    ) -> Result<()> {
        let month = month_of(now);
        self.start(now, accounts, |months, now, all| months.count_few(now, all).boxed());
        loop {
            let counts: Vec<Count> = {
                let under_way = self.lock();
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

    /// Has those of the accounts counted that are not being counted.
    fn start(&self, now: Timestamp, accounts: &[AccountId], count: How) {
        let month = month_of(now);
        let mut under_way = self.lock();
        let is_new = |account: &&AccountId| !under_way.contains_key(&(**account, month));
        let accounts: Vec<_> = accounts.iter().filter(is_new).copied().collect();
        if accounts.is_empty() {
            return;
        }
        let (tell, ended) = oneshot::channel();
        let ended = ended.map(|ended| {
            let lost = |_| StoreError::new(OPERATION, StoreErrorKind::Unavailable, "it was lost");
            ended.map_err(lost).flatten().map_err(Arc::new)
        });
        let ended: Count = ended.boxed().shared();
        under_way.extend(accounts.iter().map(|account| ((*account, month), ended.clone())));
        drop(under_way);
        let (months, entered) =
            (self.clone(), Entered { months: self.clone(), month, accounts: accounts.clone() });
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
            // Nobody may wait any more.
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

    /// Counts accounts whatever they have.
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
        let mut under_way = self.lock();
        for account in accounts {
            under_way.remove(&(*account, month));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(AccountId, i64), Count>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.months.leave(self.month, &self.accounts);
    }
}
