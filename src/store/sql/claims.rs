//! Finds late jobs and claims to abort. Each adapter passes its statement.

use super::access::{Access, Database};
use super::erasure::GOING;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, Timestamp};
use crate::store::contract::claims::FIRST;
use crate::store::{Aborts, Result, sql};

/// Returns the jobs and accounts whose attempts must stop. `stopped` reads the jobs.
pub(in crate::store) fn aborts(
    database: &impl Database,
    stopped: &'static str,
) -> impl Future<Output = Result<Aborts>> + Send {
    database.executor().read("aborts", move |connection| {
        Box::pin(async move {
            let jobs = sql::query_scalar(stopped).fetch_all(connection).await?;
            let accounts = sql::query_scalar(GOING).fetch_all(connection).await?;
            Ok(Aborts { jobs, accounts })
        })
    })
}

/// Returns a page of late jobs. Parameters of `statement`: time, number of jobs, and the start and
/// id of the last job of the page before.
pub(in crate::store) async fn late(
    database: &impl Database,
    statement: &'static str,
    before: Timestamp,
    after: Option<(Timestamp, JobId)>,
    limit: u32,
) -> Result<Vec<Ticket>> {
    let (start, job) = after.unwrap_or(FIRST);
    let query = sql::query_as(statement).bind(before).bind(i64::from(limit)).bind(start).bind(job);
    database.readable_jobs("late", query).await
}
