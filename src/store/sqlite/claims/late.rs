//! The late jobs of each account: jobs that wait although they could have started.

use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, Timestamp};
use crate::store::LATE_OF_EACH;
use crate::store::contract::claims::ACCOUNTS_AT_ONCE;
use crate::store::corrupt_rows::ReadableRow;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::{query_as, query_scalar};

/// The accounts with waiting jobs. Each is found by one lookup in the index, after the one before.
pub(in crate::store::sqlite) const WAITING: &str = "
    WITH RECURSIVE waiting (account) AS (
        SELECT * FROM (SELECT account_id FROM runs INDEXED BY runs_waiting
                       WHERE status = 0 AND account_id > ?1 ORDER BY account_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.account_id FROM runs AS r INDEXED BY runs_waiting
                WHERE r.status = 0 AND r.account_id > w.account ORDER BY r.account_id LIMIT 1)
        FROM waiting AS w WHERE w.account IS NOT NULL)
    SELECT account FROM waiting WHERE account IS NOT NULL LIMIT ?2";

pub(in crate::store::sqlite) const LATE_OF: &str = "
    SELECT j.account_id, j.id, j.shard, v.host_key, j.wake_at
    FROM runs AS j INDEXED BY runs_waiting CROSS JOIN schedule_versions AS v
    WHERE j.status = 0 AND j.account_id = ?1 AND j.wake_at < ?2 AND v.id = j.version_id
      AND NOT EXISTS (SELECT 1 FROM deleted_accounts AS d WHERE d.id = j.account_id)
    ORDER BY j.wake_at LIMIT ?3";

/// Returns a page of accounts with waiting jobs, and the oldest late jobs of each.
pub(in crate::store::sqlite) async fn of_each(
    connection: &mut Connection<'_>,
    before: Timestamp,
    after: Option<AccountId>,
) -> SqlResult<(Vec<AccountId>, Vec<ReadableRow<JobId, Ticket>>)> {
    let query = query_scalar(WAITING)
        .bind(after.unwrap_or(AccountId::from_bytes([0; 16])))
        .bind(i64::from(ACCOUNTS_AT_ONCE));
    let accounts: Vec<AccountId> = query.fetch_all(connection).await?;
    let mut rows = Vec::new();
    for account in &accounts {
        let query = query_as(LATE_OF).bind(*account).bind(before).bind(i64::from(LATE_OF_EACH));
        rows.extend(query.fetch_all(connection).await?);
    }
    Ok((accounts, rows))
}
