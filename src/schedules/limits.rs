//! The limits on an account's commands: the limits of its plan, and suspension.

use std::sync::Arc;
use std::time::Duration;

use super::draft::ScheduleDraft;
use super::{CommandError, ScheduleParts};
use crate::domain::plan::{LimitExceeded, Plan};
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, Timestamp};
use crate::store::UsedUp;
use crate::telemetry::metrics::QUOTAS_EXHAUSTED;

/// The maximum time that a call waits until the jobs of a month are counted.
const COUNTING: Duration = Duration::from_secs(2);

impl ScheduleParts {
    /// Returns the plan of an account that is allowed to make changes. The transaction of the
    /// change checks suspension again.
    pub(super) async fn admit(&self, account: AccountId) -> Result<Arc<Plan>, CommandError> {
        let found = self.store.account(account).await?.ok_or(CommandError::NoSuchAccount)?;
        if found.suspended_at.is_some() {
            return Err(CommandError::Suspended);
        }
        if self.plans.named(&found.plan).is_none() {
            let plan = found.plan.as_str();
            tracing::error!(%account, plan, "the plan is not configured, so it allows nothing");
        }
        Ok(self.plans.of(&found.plan))
    }

    /// Counts the jobs that the account made in the month and waits at most `COUNTING` for the
    /// result. If the wait times out, the count continues in the background.
    pub(super) async fn count_month(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let account = [account];
        tokio::select! {
            counted = self.store.begin_months(now, &account) => Ok(counted?),
            () = self.clock.sleep(COUNTING) => Err(CommandError::Uncounted),
        }
    }

    /// Returns the start of the history that the account's plan keeps; `None` if its plan sets no
    /// limit. Older records may remain in the store for a while but are not shown.
    pub(super) async fn kept_since(
        &self,
        account: AccountId,
    ) -> Result<Option<Timestamp>, CommandError> {
        if self.plans.longest_history().is_none() {
            return Ok(None);
        }
        let found = self.store.account(account).await?.ok_or(CommandError::NoSuchAccount)?;
        let history = self.plans.of(&found.plan).history();
        Ok(history.map(|history| self.clock.now().minus(history)))
    }
}

/// Returns the number of jobs that a plan allows per month; `None` if it is unlimited.
///
/// # Errors
/// If the plan allows no jobs.
pub(super) fn quota(plan: &Plan) -> Result<Option<u64>, LimitExceeded> {
    match plan.jobs_per_month {
        Some(0) => Err(plan.exceeded("jobsPerMonth", 0, None, 1)),
        quota => Ok(quota),
    }
}

/// Returns the error for a job beyond the monthly quota. The first refusal is logged and counted in
/// a metric.
pub(super) fn quota_exceeded(account: AccountId, plan: &Plan, used_up: UsedUp) -> LimitExceeded {
    let quota = plan.jobs_per_month.unwrap_or(u64::MAX);
    if used_up.newly {
        QUOTAS_EXHAUSTED.add(1);
        let plan = plan.name.as_str();
        tracing::warn!(%account, plan, quota, "the monthly job quota is used up");
    }
    plan.exceeded("jobsPerMonth", quota, Some(used_up.reserved), 1)
}

/// Checks a new schedule against the plan.
pub(super) fn check_new(
    draft: &ScheduleDraft,
    plan: &Plan,
    now: Timestamp,
) -> Result<(), LimitExceeded> {
    plan.check_interval(&draft.definition.cron_expression, None, now)?;
    plan.check_body(draft.definition.body.as_deref(), None)
}

/// Checks a change against the plan. Unchanged fields may exceed a limit, because the plan may have
/// changed since.
pub(super) fn check_change(
    draft: &ScheduleDraft,
    current: &Schedule,
    plan: &Plan,
    now: Timestamp,
) -> Result<(), LimitExceeded> {
    let (old, new) = (&current.definition, &draft.definition);
    if old.cron_expression != new.cron_expression {
        plan.check_interval(&new.cron_expression, Some(&old.cron_expression), now)?;
    }
    if old.body != new.body {
        plan.check_body(new.body.as_deref(), old.body.as_deref())?;
    }
    Ok(())
}
