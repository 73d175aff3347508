//! The export of all data of an account for its owner.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::operators::{AccountError, Accounts};
use crate::domain::job::{Attempt, Job};
use crate::domain::key::KeyRecord;
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, JobId, ScheduleId};
use crate::store::{
    Account, AccountMember, AuditEntry, AuditQuery, Delivery, DeliveryQuery, Invitation, JobQuery,
    KnownSecret, ScheduleQuery, ScheduleSort, SortField, SortValue, StoredChannel, StoredMonth,
    StoredPreference, StoredSkip, StoredVersion,
};

/// The page size for small rows and for rows whose page is bounded by `PAGE_BYTES`.
const PAGE: u32 = 200;
/// The page size for versions: each can have a body of 256 KiB.
const VERSIONS: u32 = 20;
/// The maximum size of the texts in a page, in bytes.
const PAGE_BYTES: usize = 4 << 20;
/// The number of jobs that are read concurrently.
const JOBS_AT_ONCE: usize = 8;

/// One exported object. It contains no secrets except those that the account's own requests and
/// alerts carry or are signed with. Digests of keys and invitations are not exported.
#[derive(Clone, Debug)]
pub enum Exported {
    /// The account itself.
    Account(Account),
    /// A member of the account.
    Member(AccountMember),
    /// A pending invitation.
    Invitation(Invitation),
    /// A key.
    Key(KeyRecord),
    /// A signing secret for requests.
    SigningSecret(KnownSecret),
    /// A notification channel with its configuration.
    Channel(Box<StoredChannel>),
    /// The number of jobs counted in a month.
    Month(StoredMonth),
    /// A schedule in its current state.
    Schedule(Box<Schedule>),
    /// The notification preference of a schedule.
    Preference(ScheduleId, Box<StoredPreference>),
    /// An earlier or current version of a schedule's definition.
    Version(Box<StoredVersion>),
    /// A job with its attempts.
    Job(Box<Job>, Vec<Attempt>),
    /// A range of ticks that created no jobs.
    Skip(StoredSkip),
    /// The delivery of an alert, with its attempts.
    Delivery(Box<Delivery>),
    /// An entry of the audit log.
    Audit(AuditEntry),
}

/// The receiver of the exported objects, called once per object.
pub type ExportSink<'a> = &'a mut (dyn FnMut(Exported) -> Result<(), AccountError> + Send);

impl Accounts {
    /// Exports all data of an account to `sink`, page by page, and returns the number of objects.
    /// Each object has its state at the time of reading, so concurrent changes may or may not be
    /// included.
    ///
    /// # Errors
    /// If the store or the sink fails.
    pub async fn export(
        &self,
        account: &Account,
        sink: ExportSink<'_>,
    ) -> Result<u64, AccountError> {
        let mut count = 0;
        let mut sink = |exported: Exported| {
            count += 1;
            sink(exported)
        };
        let sink: ExportSink<'_> = &mut sink;
        let (store, id) = (&self.store, account.id);
        sink(Exported::Account(account.clone()))?;
        store.members(id).await?.into_iter().map(Exported::Member).try_for_each(&mut *sink)?;
        let invitations = store.invitations(id, self.clock.now()).await?;
        invitations.into_iter().map(Exported::Invitation).try_for_each(&mut *sink)?;
        store.keys(id).await?.into_iter().map(Exported::Key).try_for_each(&mut *sink)?;
        let secrets = store.signing_secrets(id).await?;
        secrets.into_iter().map(Exported::SigningSecret).try_for_each(&mut *sink)?;
        self.export_channels(id, sink).await?;
        store.months(id).await?.into_iter().map(Exported::Month).try_for_each(&mut *sink)?;
        self.export_schedules(id, sink).await?;
        self.export_versions(id, sink).await?;
        self.export_jobs(id, sink).await?;
        self.export_skips(id, sink).await?;
        self.export_deliveries(id, sink).await?;
        self.export_audit_log(id, sink).await?;
        Ok(count)
    }

    async fn export_channels(
        &self,
        id: AccountId,
        sink: ExportSink<'_>,
    ) -> Result<(), AccountError> {
        for channel in self.store.channels(id).await? {
            // The channel was deleted between the two reads.
            let Some(stored) = self.store.channel(id, channel.id).await? else { continue };
            sink(Exported::Channel(Box::new(stored)))?;
        }
        Ok(())
    }

    async fn export_schedules(
        &self,
        id: AccountId,
        sink: ExportSink<'_>,
    ) -> Result<(), AccountError> {
        let mut query = ScheduleQuery {
            contains: None,
            is_enabled: None,
            http_method: None,
            is_failing: None,
            sort: ScheduleSort { field: SortField::CreatedAt, descending: false },
            after: None,
            offset: 0,
            limit: PAGE,
            max_bytes: PAGE_BYTES,
        };
        loop {
            let page = self.store.schedules(id, &query).await?;
            let last = page.schedules.last();
            let last = last.map(|last| (SortValue::Time(Some(last.created_at)), last.id));
            for schedule in page.schedules {
                let schedule_id = schedule.id;
                sink(Exported::Schedule(Box::new(schedule)))?;
                let preference = self.store.preference(id, schedule_id).await?;
                let is_set = |stored: &StoredPreference| *stored != StoredPreference::default();
                if let Some(stored) = preference.filter(is_set) {
                    sink(Exported::Preference(schedule_id, Box::new(stored)))?;
                }
            }
            query.after = last.filter(|_| page.has_more);
            if query.after.is_none() {
                return Ok(());
            }
        }
    }

    async fn export_versions(
        &self,
        id: AccountId,
        sink: ExportSink<'_>,
    ) -> Result<(), AccountError> {
        let mut after = None;
        loop {
            let page = self.store.versions(id, after, VERSIONS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            for version in page {
                sink(Exported::Version(Box::new(version)))?;
            }
        }
    }

    async fn export_jobs(&self, id: AccountId, sink: ExportSink<'_>) -> Result<(), AccountError> {
        let mut query = JobQuery::newest(PAGE, PAGE_BYTES);
        loop {
            let page = self.store.jobs(id, &query).await?;
            let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
            let last = ids.last().copied();
            let whole = ids.into_iter().map(|job| self.store.job(id, job));
            let mut whole = stream::iter(whole).buffered(JOBS_AT_ONCE);
            while let Some(found) = whole.try_next().await? {
                // The job was deleted between the two reads.
                let Some((job, attempts)) = found else { continue };
                sink(Exported::Job(Box::new(job), attempts))?;
            }
            query.after = last.filter(|_| page.has_more);
            if query.after.is_none() {
                return Ok(());
            }
        }
    }

    async fn export_skips(&self, id: AccountId, sink: ExportSink<'_>) -> Result<(), AccountError> {
        let mut after = None;
        loop {
            let page = self.store.skips_of(id, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.position);
            page.into_iter().map(Exported::Skip).try_for_each(&mut *sink)?;
        }
    }

    async fn export_deliveries(
        &self,
        id: AccountId,
        sink: ExportSink<'_>,
    ) -> Result<(), AccountError> {
        let mut query = DeliveryQuery { limit: PAGE, ..DeliveryQuery::default() };
        loop {
            let page = self.store.deliveries(id, &query).await?;
            query.after = page.deliveries.last().map(|last| last.id).filter(|_| page.has_more);
            for delivery in page.deliveries {
                sink(Exported::Delivery(Box::new(delivery)))?;
            }
            if query.after.is_none() {
                return Ok(());
            }
        }
    }

    async fn export_audit_log(
        &self,
        id: AccountId,
        sink: ExportSink<'_>,
    ) -> Result<(), AccountError> {
        let mut query = AuditQuery {
            from: None,
            to: None,
            actor: None,
            action: None,
            after: None,
            limit: PAGE,
        };
        loop {
            let page = self.store.audit_log(id, &query).await?;
            let last = page.entries.last().map(|last| last.id);
            page.entries.into_iter().map(Exported::Audit).try_for_each(&mut *sink)?;
            query.after = last.filter(|_| page.has_more);
            if query.after.is_none() {
                return Ok(());
            }
        }
    }
}
