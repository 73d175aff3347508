//! Jobs: creating, reading and cancelling them for users.

mod cancel;
mod create;
pub(in crate::store) mod ending;
pub(in crate::store) mod list;
pub(in crate::store) mod overlap;
pub(in crate::store) mod response;
pub(in crate::store) mod rows;
pub(in crate::store) mod runs;
pub(in crate::store) mod tickets;

use async_trait::async_trait;

use crate::domain::job::{Attempt, Job};
use crate::domain::{AccountId, JobId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::{
    Cancelled, JobPage, JobQuery, JobStore, NewJob, Result, RetryResult, TriggerResult,
    WriteContext, sql,
};
use rows::{JOB, JobAndLast};

pub(super) use cancel::end_jobs_of;

#[async_trait]
impl<D: Database> JobStore for D {
    async fn create_job(
        &self,
        write: &WriteContext,
        job: &NewJob,
        quota: Option<u64>,
    ) -> Result<TriggerResult> {
        let (write, job) = (*write, *job);
        let is_plain = quota.is_none() && write.idempotency.is_none();
        if is_plain && D::DIALECT == Dialect::Postgres {
            let create = call(create::trigger_at_once, (write, job));
            return self.api().statement("create_job", 1, create).await;
        }
        self.api().transaction("create_job", call(create::trigger, (write, job, quota))).await
    }

    async fn retry_job(
        &self,
        write: &WriteContext,
        of: JobId,
        id: JobId,
        quota: Option<u64>,
    ) -> Result<RetryResult> {
        self.api().transaction("retry_job", call(create::retry, (*write, of, id, quota))).await
    }

    async fn cancel_job(&self, write: &WriteContext, id: JobId) -> Result<Cancelled> {
        self.history_transaction("cancel_job", call(cancel::cancel, (*write, id))).await
    }

    async fn job(&self, account: AccountId, id: JobId) -> Result<Option<(Job, Vec<Attempt>)>> {
        let wanted = (self.encrypted_fields().clone(), account, id);
        self.api().snapshot("job", call(read, wanted)).await
    }

    async fn jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage> {
        let wanted = (self.encrypted_fields().clone(), account, query.clone());
        self.api().snapshot("jobs", call(list::list, wanted)).await
    }
}

/// Reads a job and its attempts on one snapshot.
async fn read(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    account: AccountId,
    id: JobId,
) -> SqlResult<Option<(Job, Vec<Attempt>)>> {
    let found = sql::query_as::<JobAndLast>(JOB).bind(id).bind(account);
    let Some(JobAndLast { version, mut job, last }) = found.fetch_optional(connection).await?
    else {
        return Ok(None);
    };
    encrypted_fields.open_job(account, version, &mut job);
    let attempts = sql::query_as(
        "SELECT number, started_at, completed_at, duration_ms, status_code, error_code,
             error_message, timings
         FROM attempts WHERE job_id = $1 ORDER BY number",
    );
    let mut attempts: Vec<Attempt> = attempts.bind(id).fetch_all(connection).await?;
    let recorded = attempts.last().map_or(0, |attempt| attempt.number);
    attempts.extend(last.filter(|last| last.number > recorded));
    Ok(Some((job, attempts)))
}
