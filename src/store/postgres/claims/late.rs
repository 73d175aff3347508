//! The late jobs of each account: jobs that wait although they could have started.

use sqlx::PgConnection;

use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, Timestamp};
use crate::store::LATE_OF_EACH;
use crate::store::contract::claims::ACCOUNTS_AT_ONCE;
use crate::store::corrupt_rows::ReadableRow;
use crate::store::sql::error::SqlResult;

/// The accounts with waiting jobs. Each is found by one lookup in the index, after the one before.
const WAITING: &str = "
    WITH RECURSIVE waiting AS (
        (SELECT account_id FROM runs WHERE status = 0 AND account_id > $1
         ORDER BY account_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.account_id FROM runs AS r
                WHERE r.status = 0 AND r.account_id > w.account_id
                ORDER BY r.account_id LIMIT 1)
        FROM waiting AS w WHERE w.account_id IS NOT NULL)
    SELECT account_id FROM waiting WHERE account_id IS NOT NULL LIMIT $2";

const LATE_OF: &str = "
    SELECT j.account_id, j.id, j.shard, v.host_key, j.wake_at
    FROM unnest($1::uuid[]) AS w (account)
    CROSS JOIN LATERAL (
        SELECT * FROM runs AS r
        WHERE r.status = 0 AND r.account_id = w.account AND r.wake_at < $2
        ORDER BY r.wake_at LIMIT $3) AS j
    JOIN schedule_versions AS v ON v.id = j.version_id
    WHERE j.account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)";

/// Returns a page of accounts with waiting jobs, and the oldest late jobs of each.
pub(in crate::store::postgres) async fn of_each(
    connection: &mut PgConnection,
    before: Timestamp,
    after: Option<AccountId>,
) -> SqlResult<(Vec<AccountId>, Vec<ReadableRow<JobId, Ticket>>)> {
    let query = sqlx::query_scalar(WAITING).bind(after.unwrap_or(AccountId::from_bytes([0; 16])));
    let query = query.bind(i64::from(ACCOUNTS_AT_ONCE));
    let accounts: Vec<AccountId> = query.fetch_all(&mut *connection).await?;
    let query = sqlx::query_as(LATE_OF).bind(&accounts).bind(before);
    let rows = query.bind(i64::from(LATE_OF_EACH)).fetch_all(connection).await?;
    Ok((accounts, rows))
}
