//! Limits the concurrent attempts of an account on this executor, if its plan has a limit.
//!
//! The limit of the plan is divided among the live executors, so that no executor has to ask
//! another one. Each has a share of at least one attempt. An executor notices a changed plan after
//! [`KNOWN_FOR`] at the latest, and a started or stopped executor as soon as the cluster reports
//! it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::SharedCluster;
use crate::domain::AccountId;
use crate::domain::plan::Plans;
use crate::domain::ticket::Ticket;
use crate::runtime::Mutex;
use crate::store::{Result, SharedStore};

/// The time for which the limit of an account is cached.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// The number of cached accounts above which expired entries are removed.
const CLEAN_UP_AT: usize = 10_000;

/// The shares of the accounts.
pub(in crate::executor) struct AccountConcurrency {
    /// Absent if no plan limits the attempts under way.
    plans: Option<Arc<Plans>>,
    store: SharedStore,
    cluster: SharedCluster,
    /// The name of this replica in the cluster.
    replica: String,
    cached: Mutex<HashMap<AccountId, CachedLimit>>,
}

/// The plan's limit, and the end of its time in the cache, on the monotonic clock.
#[derive(Clone, Copy)]
struct CachedLimit {
    limit: Option<u64>,
    until: Duration,
}

impl AccountConcurrency {
    pub(in crate::executor) fn new(
        plans: Arc<Plans>,
        store: SharedStore,
        cluster: SharedCluster,
        replica: String,
    ) -> Self {
        let limits = plans.all().any(|plan| plan.concurrent_attempts.is_some());
        Self { plans: limits.then_some(plans), store, cluster, replica, cached: Mutex::default() }
    }

    /// Returns the shares of the tickets' accounts that are limited. Asks the store at most once,
    /// about accounts that are not cached, and never if no plan has a limit.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub(in crate::executor) async fn of(
        &self,
        tickets: &[Ticket],
        now: Duration,
    ) -> Result<HashMap<AccountId, usize>> {
        let Some(plans) = self.plans.as_ref().filter(|_| !tickets.is_empty()) else {
            return Ok(HashMap::new());
        };
        let unknown = self.unknown(tickets, now);
        if !unknown.is_empty() {
            let named = self.store.plans_of(&unknown).await?;
            let mut cached = self.cached.lock();
            if cached.len() > CLEAN_UP_AT {
                cached.retain(|_, cached| cached.until > now);
            }
            cached.extend(named.into_iter().map(|(account, plan)| {
                let limit = plans.of(&plan).concurrent_attempts;
                (account, CachedLimit { limit, until: now + KNOWN_FOR })
            }));
        }
        let (position, executors) = self.position().await;
        let cached = self.cached.lock();
        let limited = tickets.iter().filter_map(|ticket| {
            let limit = cached.get(&ticket.account)?.limit?;
            Some((ticket.account, part(limit, position, executors)))
        });
        Ok(limited.collect())
    }

    fn unknown(&self, tickets: &[Ticket], now: Duration) -> Vec<AccountId> {
        let cached = self.cached.lock();
        let is_cached =
            |account: &AccountId| cached.get(account).is_some_and(|cached| cached.until > now);
        let accounts = tickets.iter().map(|ticket| ticket.account);
        let mut unknown: Vec<AccountId> = accounts.filter(|account| !is_cached(account)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Returns `true` if no other executor is known.
    pub(in crate::executor) async fn is_alone(&self) -> bool {
        self.position().await.1 == 1
    }

    /// Returns this executor's position among those that are alive, and their number. While the
    /// cluster cannot be reached, this executor counts as the only one, because no other is known.
    async fn position(&self) -> (usize, usize) {
        let members = self.cluster.members().await.unwrap_or_default();
        let mut names: Vec<&str> =
            members.iter().filter(|member| member.executes).map(|one| &*one.name).collect();
        names.sort_unstable();
        let position = names.iter().position(|name| *name == self.replica).unwrap_or(0);
        (position, names.len().max(1))
    }
}

/// Returns the part of a limit for the executor at `position` of `executors`. The parts add up to
/// the limit, unless there are more executors than that.
fn part(limit: u64, position: usize, executors: usize) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    (limit / executors + usize::from(position < limit % executors)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_limit_and_each_replica_has_one() {
        for (limit, executors) in [(1, 1), (5, 3), (6, 3), (100, 7)] {
            let parts = (0..executors).map(|position| part(limit, position, executors));
            assert_eq!(parts.sum::<usize>() as u64, limit, "{limit} among {executors}");
        }
        assert_eq!((0..3).map(|position| part(1, position, 3)).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(part(u64::MAX, 0, 1), usize::MAX);
    }
}
