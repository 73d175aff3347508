//! The unstarted jobs of schedules that are about to fire.

pub(in crate::store) mod placing;
pub(in crate::store) mod shards;

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use crate::domain::ScheduleId;
use crate::store::sql::connection::Dialect;
use crate::store::sql::connection::access::{Access, Database};
use crate::store::sql::encoding::batch_rows::json_ids;
use crate::store::{Result, sql};

/// Returns the statement that counts the unstarted jobs of schedules, each to a maximum.
pub(in crate::store) fn count_unstarted(dialect: Dialect) -> String {
    format!(
        "SELECT e.id, (SELECT count(*) FROM (
                 SELECT 1 FROM runs {}
                 WHERE schedule_id = e.id AND status = 0 AND attempt_number = 0 LIMIT $2) AS few)
         FROM {}",
        dialect.indexed_by("runs_unstarted"),
        dialect.listed("$1")
    )
}

/// Returns the numbers of the unstarted jobs of schedules, each at most `most`.
pub(in crate::store) async fn unstarted<D: Database>(
    store: &D,
    schedules: &[ScheduleId],
    most: u32,
) -> Result<HashMap<ScheduleId, u32>> {
    let count = sql::query_as::<(ScheduleId, i64)>(AssertSqlSafe(count_unstarted(D::DIALECT)));
    let count = count.bind(json_ids(schedules.iter().map(|id| id.to_bytes())));
    let counted = store.scheduler().all("unstarted", count.bind(i64::from(most))).await?;
    let jobs = |(schedule, count)| (schedule, u32::try_from(count).unwrap_or(most));
    Ok(counted.into_iter().map(jobs).collect())
}
