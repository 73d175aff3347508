//! Queries for schedules, their skips and their jobs.

use super::{CommandError, Schedules};
use crate::domain::hours::AccountHour;
use crate::domain::job::{Attempt, Job};
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::{
    JobPage, JobQuery, SchedulePage, ScheduleQuery, SkipPage, SkipQuery, VersionPage,
};

impl Schedules {
    /// Returns one schedule.
    pub async fn get(&self, account: AccountId, id: ScheduleId) -> Result<Schedule, CommandError> {
        let found = self.0.store.schedule(account, id).await?;
        found.ok_or(CommandError::NoSuchSchedule)
    }

    /// Returns a page of the account's schedules.
    pub async fn list(
        &self,
        account: AccountId,
        query: &ScheduleQuery,
    ) -> Result<SchedulePage, CommandError> {
        Ok(self.0.store.schedules(account, query).await?)
    }

    /// Returns at most `limit` stored versions of a schedule, newest first, from `from` on.
    pub async fn versions(
        &self,
        account: AccountId,
        id: ScheduleId,
        from: Option<VersionId>,
        limit: u32,
    ) -> Result<VersionPage, CommandError> {
        let page = self.0.store.schedule_versions(account, id, from, limit).await?;
        // A schedule that exists has a version.
        if page.total == 0 { Err(CommandError::NoSuchSchedule) } else { Ok(page) }
    }

    /// Returns a page of a schedule's skips, which are ticks that created no job.
    pub async fn skips(
        &self,
        account: AccountId,
        id: ScheduleId,
        query: &SkipQuery,
    ) -> Result<SkipPage, CommandError> {
        self.get(account, id).await?;
        let from = query.from.max(self.0.kept_since(account).await?);
        Ok(self.0.store.skips(account, id, &SkipQuery { from, ..query.clone() }).await?)
    }

    /// Returns the hours that begin at `from` or later and in which jobs of the account ended, in
    /// order, as far back as the account keeps its history.
    pub async fn hours(
        &self,
        account: AccountId,
        from: Timestamp,
    ) -> Result<Vec<AccountHour>, CommandError> {
        let kept_since = self.0.kept_since(account).await?;
        let from = kept_since.map_or(from, |since| from.max(since));
        Ok(self.0.store.hours(account, from).await?)
    }

    /// Returns one job with its attempts.
    pub async fn job(
        &self,
        account: AccountId,
        id: JobId,
    ) -> Result<(Job, Vec<Attempt>), CommandError> {
        let kept_since = self.0.kept_since(account).await?;
        let found = self.0.store.job(account, id).await?;
        let is_kept = |job: &Job| {
            !job.status.is_final() || kept_since.is_none_or(|since| job.scheduled_run_at >= since)
        };
        found.filter(|(job, _)| is_kept(job)).ok_or(CommandError::NoSuchJob)
    }

    /// Returns a page of the account's jobs.
    pub async fn jobs(
        &self,
        account: AccountId,
        query: &JobQuery,
    ) -> Result<JobPage, CommandError> {
        let from = query.from.max(self.0.kept_since(account).await?);
        Ok(self.0.store.jobs(account, &JobQuery { from, ..query.clone() }).await?)
    }
}
