//! Deleting and triggering schedules; retrying and cancelling jobs.

use super::limits::{quota, quota_exceeded};
use super::{CommandError, Schedules};
use crate::domain::call::Call;
use crate::domain::job::{Job, Trigger};
use crate::domain::{AccountId, JobId, ScheduleId};
use crate::store::{Cancelled, NewJob, RetryResult, TriggerResult};
use crate::telemetry::traces::{JobSubject, MadeSpan};

impl Schedules {
    /// Deletes a schedule: it creates no more jobs, its waiting jobs end, and its running jobs get
    /// no further attempt.
    pub async fn delete(
        &self,
        account: AccountId,
        call: Call,
        id: ScheduleId,
    ) -> Result<(), CommandError> {
        let inner = self.0.clone();
        self.run(async move {
            inner.admit(account).await?;
            let write = inner.write(account, call, inner.clock.now());
            if !inner.store.delete_schedule(&write, id).await? {
                return Err(CommandError::NoSuchSchedule);
            }
            inner.hint(account, &[id]).await;
            Ok(())
        })
        .await
    }

    /// Triggers a schedule now, whether or not it is enabled, and returns the new job's id. The
    /// next tick does not change.
    pub async fn trigger(
        &self,
        account: AccountId,
        call: Call,
        schedule: ScheduleId,
    ) -> Result<JobId, CommandError> {
        let inner = self.0.clone();
        let job = self.run(async move {
            let plan = inner.admit(account).await?;
            let quota = quota(&plan)?;
            let now = inner.clock.now();
            let job = NewJob { id: JobId::new(now, inner.random.bits()), schedule };
            let write = inner.write(account, call, now);
            let mut triggered = inner.store.create_job(&write, &job, quota).await?;
            if triggered == TriggerResult::Uncounted {
                inner.count_month(account, now).await?;
                triggered = inner.store.create_job(&write, &job, quota).await?;
            }
            match triggered {
                TriggerResult::Created(ticket) => inner.start(&[ticket]).await,
                TriggerResult::NoSuchSchedule => return Err(CommandError::NoSuchSchedule),
                TriggerResult::Uncounted => return Err(CommandError::Uncounted),
                TriggerResult::UsedUp(used_up) => {
                    return Err(quota_exceeded(account, &plan, used_up).into());
                }
            }
            Ok(job.id)
        });
        let job = job.await?;
        self.trace((account, Some(schedule), job), Trigger::Manual);
        Ok(job)
    }

    /// Runs the schedule of a finished job again, with the schedule's current definition. Returns
    /// the new job's id.
    pub async fn retry_job(
        &self,
        account: AccountId,
        call: Call,
        of: JobId,
    ) -> Result<JobId, CommandError> {
        let inner = self.0.clone();
        let job = self.run(async move {
            let plan = inner.admit(account).await?;
            let quota = quota(&plan)?;
            let now = inner.clock.now();
            let id = JobId::new(now, inner.random.bits());
            let write = inner.write(account, call, now);
            let mut retried = inner.store.retry_job(&write, of, id, quota).await?;
            if retried == RetryResult::Uncounted {
                inner.count_month(account, now).await?;
                retried = inner.store.retry_job(&write, of, id, quota).await?;
            }
            match retried {
                RetryResult::Uncounted => return Err(CommandError::Uncounted),
                RetryResult::Created(ticket) => inner.start(&[ticket]).await,
                RetryResult::NotFound => return Err(CommandError::NoSuchJob),
                RetryResult::Unfinished => return Err(CommandError::JobUnfinished),
                RetryResult::ScheduleGone => return Err(CommandError::NoSuchSchedule),
                RetryResult::UsedUp(used_up) => {
                    return Err(quota_exceeded(account, &plan, used_up).into());
                }
            }
            Ok(id)
        });
        let job = job.await?;
        self.trace((account, None, job), Trigger::Retry);
        Ok(job)
    }

    /// Emits the span of a job that a user requested. It links to the request, so the caller's task
    /// does it.
    fn trace(
        &self,
        (account, schedule, job): (AccountId, Option<ScheduleId>, JobId),
        trigger: Trigger,
    ) {
        let subject = JobSubject { job, schedule, account: Some(account) };
        MadeSpan { subject, trigger, recorded_at: self.0.clock.now() }.end();
    }

    /// Cancels a job. A waiting job ends at once; the executor of a running job aborts the current
    /// attempt soon and the job then ends.
    pub async fn cancel_job(
        &self,
        account: AccountId,
        call: Call,
        id: JobId,
    ) -> Result<Job, CommandError> {
        let inner = self.0.clone();
        self.run(async move {
            inner.admit(account).await?;
            let write = inner.write(account, call, inner.clock.now());
            match inner.store.cancel_job(&write, id).await? {
                Cancelled::Done(tickets) => inner.start(&tickets).await,
                Cancelled::NotFound => return Err(CommandError::NoSuchJob),
                Cancelled::Finished => return Err(CommandError::JobFinished),
            }
            let found = inner.store.job(account, id).await?;
            found.map(|(job, _)| job).ok_or(CommandError::NoSuchJob)
        })
        .await
    }
}
