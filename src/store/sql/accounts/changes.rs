//! Changes of accounts, within a transaction.

use crate::domain::audit::Action;
use crate::domain::plan::month_of;
use crate::domain::{AccountId, Timestamp};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::account_lock::{fence_change, lock};
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::query::Query;
use crate::store::sql::error::SqlResult;
use crate::store::sql::{self, audit, signing};
use crate::store::{Account, AccountUsage, WriteContext};

/// Stores an account. Returns `false` if the name is taken.
pub(in crate::store) async fn insert_account(
    connection: &mut Connection<'_>,
    account: Account,
) -> SqlResult<bool> {
    let made = sql::query(
        "INSERT INTO accounts (id, name, created_at, plan) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(account.id)
    .bind(account.name)
    .bind(account.created_at)
    .bind(account.plan)
    .execute(connection)
    .await?;
    Ok(made > 0)
}

pub(in crate::store) async fn create_account(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    write: WriteContext,
    name: String,
    plan: String,
) -> SqlResult<bool> {
    let new = Account { plan, ..Account::new(write.account, name, write.now) };
    if !insert_account(connection, new).await? {
        return Ok(false);
    }
    audit::record(connection, write, Action::AccountCreated, [write.account]).await?;
    signing::make_first(connection, &encrypted_fields, write.account, write.now).await?;
    Ok(true)
}

/// Sets the plan. Nothing is recorded if the account already has it.
pub(in crate::store) async fn set_plan(
    connection: &mut Connection<'_>,
    write: WriteContext,
    plan: String,
) -> SqlResult<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    let put = sql::query("UPDATE accounts SET plan = $2 WHERE id = $1 AND plan <> $2")
        .bind(write.account)
        .bind(plan)
        .execute(&mut *connection)
        .await?;
    if put > 0 {
        forget_month(connection, write).await?;
        fence_change(connection, write.account).await?;
        audit::record(connection, write, Action::AccountPlanSet, [write.account]).await?;
    }
    Ok(true)
}

/// Removes the month's counter, so that the jobs are counted again when the new plan limits them:
/// jobs made under a plan without a quota were not counted. The old value is kept under the
/// negative month as a lower bound for the new count.
async fn forget_month(connection: &mut Connection<'_>, write: WriteContext) -> SqlResult<()> {
    let month = month_of(write.now);
    let forgotten: Option<i64> = sql::query_scalar(
        "DELETE FROM account_months WHERE account_id = $1 AND month = $2 RETURNING reserved",
    )
    .bind(write.account)
    .bind(month)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(reserved) = forgotten else { return Ok(()) };
    sql::query(
        "INSERT INTO account_months (account_id, month, reserved) VALUES ($1, $2, $3)
         ON CONFLICT (account_id, month) DO UPDATE SET reserved = excluded.reserved",
    )
    .bind(write.account)
    .bind(-month)
    .bind(reserved)
    .run(connection)
    .await
}

/// Suspends or resumes an account. In PostgreSQL, this does not wait for work that was admitted
/// with the shared lock: `Database::fence_suspension` does, after the commit.
pub(in crate::store) async fn set_suspended(
    connection: &mut Connection<'_>,
    write: WriteContext,
    suspended: bool,
) -> SqlResult<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    let set = sql::query(
        "UPDATE accounts SET
             resumed_at = CASE WHEN $2 THEN resumed_at ELSE $3 END,
             suspended_at = CASE WHEN $2 THEN $3 END
         WHERE id = $1 AND (suspended_at IS NULL) = $2",
    )
    .bind(write.account)
    .bind(suspended)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if set > 0 {
        fence_change(connection, write.account).await?;
        let action = if suspended { Action::AccountSuspended } else { Action::AccountResumed };
        audit::record(connection, write, action, [write.account]).await?;
    }
    Ok(true)
}

/// The counts of an account's objects, in the order in which [`used`] expects them.
pub(in crate::store) type ObjectCounts = (i64, i64, i64, Option<i64>, Option<Timestamp>);

/// Returns the query that counts an account's objects.
pub(in crate::store) fn counted(id: AccountId, now: Timestamp) -> Query<ObjectCounts> {
    sql::query_as(
        "SELECT
             (SELECT count(*) FROM schedules WHERE account_id = $1),
             (SELECT count(*) FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > $2)),
             (SELECT count(*) FROM notification_channels WHERE account_id = $1),
             (SELECT reserved FROM account_months WHERE account_id = $1 AND month = $3),
             (SELECT exhausted_at FROM account_months WHERE account_id = $1 AND month = $3)",
    )
    .bind(id)
    .bind(now)
    .bind(month_of(now))
}

pub(in crate::store) fn used(
    (schedules, keys, channels, reserved, quota_exhausted_at): ObjectCounts,
) -> AccountUsage {
    AccountUsage {
        schedules: schedules.unsigned_abs(),
        keys: keys.unsigned_abs(),
        channels: channels.unsigned_abs(),
        jobs_reserved: reserved.map(i64::unsigned_abs),
        quota_exhausted_at,
    }
}
