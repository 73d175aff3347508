//! What an account is allowed: its plan, and whether it is suspended.

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::{CommandError, Parts};
use crate::domain::plan::{LimitExceeded, Plan};
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, Timestamp};
use crate::store::UsedUp;
use crate::telemetry::metrics::QUOTAS_EXHAUSTED;

/// How long a call waits for the jobs of a month to be counted.
const COUNTING: Duration = Duration::from_secs(2);

impl Parts {
    /// The plan of an account that may change something. Whether it still may is judged again by
    /// the transaction of the change.
    pub(super) async fn admit(&self, account: AccountId) -> Result<Arc<Plan>, CommandError> {
        let found = self.store.account(account).await?.ok_or(CommandError::NoSuchAccount)?;
        if found.suspended_at.is_some() {
            return Err(CommandError::Suspended);
        }
        if self.plans.named(&found.plan).is_none() {
            let plan = found.plan.as_str();
            tracing::error!(%account, plan, "a plan is not configured, its accounts may nothing");
        }
        Ok(self.plans.of(&found.plan))
    }

    /// Has the jobs counted that the account has made in the month, and waits a moment for that:
    /// it goes on.
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

    /// Since when the account's plan keeps what is over, if it says so; what is older may be there
    /// for a while, and is not shown.
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

/// How many jobs a plan allows in a month, if it limits them.
///
/// # Errors
/// If it allows none.
pub(super) fn quota(plan: &Plan) -> Result<Option<u64>, LimitExceeded> {
    match plan.jobs_per_month {
        Some(0) => Err(plan.exceeded("jobsPerMonth", 0, None, 1)),
        quota => Ok(quota),
    }
}

/// The refusal of a job that a user asks for; an operator is told of the first one.
pub(super) fn tell(account: AccountId, plan: &Plan, used_up: UsedUp) -> LimitExceeded {
    let quota = plan.jobs_per_month.unwrap_or(u64::MAX);
    if used_up.newly {
        QUOTAS_EXHAUSTED.add(1);
        let plan = plan.name.as_str();
        tracing::warn!(%account, plan, quota, "the jobs of the month are used up");
    }
    plan.exceeded("jobsPerMonth", quota, Some(used_up.reserved), 1)
}

/// Judges a new schedule.
pub(super) fn check_new(draft: &Draft, plan: &Plan, now: Timestamp) -> Result<(), LimitExceeded> {
    plan.check_interval(&draft.definition.cron_expression, None, now)?;
    plan.check_body(draft.definition.body.as_deref(), None)
}

/// Judges a change. What it leaves as it is may be over a limit: the plan may have been another.
pub(super) fn check_change(
    draft: &Draft,
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
