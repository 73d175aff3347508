//! Copies a store into one of another kind: its tables, and the pages of rows between the two.
//!
//! Each table is read in the order of its key and written page by page. A page replaces all rows of
//! the other store between the end of the previous page and its own end. So a repeated copy adds
//! new rows, updates changed ones, deletes rows that are gone, and touches nothing else.
//!
//! Not copied are:
//! - `meta`, which describes the setup of a store;
//! - `secret_keys`, which the other store must already have;
//! - `replicas`, the leases of the replicas of one store;
//! - `shards`, because their epochs fence the leaders of one store and mean nothing in another.
//!
//! The number of shards may differ, so the shard of a schedule is computed again from its id.

use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::TryStreamExt;
use sqlx::AssertSqlSafe;

use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::{query_as, query_scalar};

/// The maximum number of rows of a page.
pub(in crate::store) const PAGE_ROWS: usize = 1_000;
/// The size in bytes at which a page ends. Its last row may exceed it.
pub(in crate::store) const PAGE_BYTES: usize = 4 << 20;

/// The form of a column in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ColumnForm {
    /// A number or a text, unchanged.
    Plain,
    /// An id, as 32 hexadecimal digits.
    Id,
    /// Other bytes: hexadecimal digits after a mark.
    Bytes,
}

/// Declares the copied tables with their names in the stores and all their columns but the shard. A
/// column without a form is [`ColumnForm::Plain`].
macro_rules! tables {
    (@form) => { ColumnForm::Plain };
    (@form $form:ident) => { ColumnForm::$form };
    ($($(#[$doc:meta])* $table:ident = $name:ident($($column:ident $(: $form:ident)?),*);)*) => {
        /// A table that is copied.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Table { $($(#[$doc])* $table,)* }

        impl Table {
            /// All tables, in the order in which they are copied.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$table),*];

            /// Returns the name of the table, which is the same in both stores.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$table => stringify!($name),)* }
            }

            /// Returns all columns but the shard.
            pub(in crate::store) const fn columns(self) -> &'static [(&'static str, ColumnForm)] {
                match self {
                    $(Self::$table => &[$((stringify!($column), tables!(@form $($form)?))),*],)*
                }
            }
        }
    };
}

tables! {
    /// Accounts.
    Accounts = accounts(id: Id, name, created_at, plan, suspended_at, resumed_at, pruned_at);
    /// The numbers of jobs that accounts created in a month.
    AccountMonths = account_months(account_id: Id, month, reserved, exhausted_at);
    /// The finished jobs of accounts by hour.
    AccountHours = account_hours(
        account_id: Id, slot, succeeded, failed, cancelled, lag_10ms, lag_50ms, lag_100ms,
        lag_250ms, lag_1s, lag_10s, lag_1min, lag_more
    );
    /// API keys of accounts.
    ApiKeys = api_keys(
        id: Id, account_id: Id, name, scope, digest: Bytes, created_at, created_by, life_ms,
        expires_at, revoked_at, last_used_at
    );
    /// Schedules.
    Schedules = schedules(
        id: Id, account_id: Id, version_id: Id, name, description, is_enabled, overlap_policy,
        catch_up_policy, revision, created_at, updated_at, pause_note, paused_by, paused_at
    );
    /// The definitions of schedules, old ones too.
    Versions = schedule_versions(
        id: Id, account_id: Id, schedule_id: Id, host_key, cron_expression, timezone, endpoint,
        http_method, body, headers, max_retries, timeout_seconds, expected_status_codes,
        sign_requests, created_at, retired_at
    );
    /// The states of schedules. PostgreSQL also keeps columns of the schedule and its version here.
    States = schedule_state(
        schedule_id: Id, account_id: Id, version_id: Id, host_key, max_attempts, overlap_policy,
        next_tick, last_run_at, last_job_status, consecutive_failures, active_job_id: Id,
        held_job_id: Id, alert_on, alert_threshold, alert_repeat_minutes, alerted_at, fired_up_to
    );
    /// The leases of executors.
    Executors = executors(id: Id, alive_until);
    /// Unfinished jobs.
    Runs = runs(
        id: Id, account_id: Id, schedule_id: Id, version_id: Id, status, trigger, attempt_number,
        max_attempts, wake_at, claimed_by: Id, stop, created_at, updated_at, started_at,
        attempt_started_at
    );
    /// Finished jobs with their last attempt.
    Jobs = jobs(
        id: Id, account_id: Id, schedule_id: Id, version_id: Id, status, trigger, attempt_number,
        max_attempts, created_at, updated_at, started_at, completed_at, attempt_started_at,
        duration_ms, timings, status_code, error_code, error_message, response_truncated,
        response_headers, response
    );
    /// Earlier attempts of jobs.
    Attempts = attempts(
        job_id: Id, number, started_at, completed_at, duration_ms, status_code, error_code,
        error_message, timings, response_truncated, response_headers, response
    );
    /// Ticks for which no job was created.
    Skips = skips(id, account_id: Id, schedule_id: Id, first_tick, last_tick, count, reason);
    /// Users.
    Users = users(
        id: Id, email, password, password_version, created_at, disabled_at, operator_since,
        email_confirmed_at, time_zone, has_12_hour_clock
    );
    /// Identities of users.
    Identities = identities(id: Id, user_id: Id, issuer, subject, created_at);
    /// Memberships of users in accounts.
    Memberships = memberships(id: Id, account_id: Id, user_id: Id, role, created_at);
    /// Open invitations to accounts.
    Invitations = invitations(
        id: Id, account_id: Id, email, role, digest: Bytes, created_at, expires_at
    );
    /// Sessions of users.
    Sessions = sessions(id: Id, user_id: Id, digest: Bytes, created_at, expires_at, ends_at);
    /// Open password resets.
    Resets = password_resets(id: Id, user_id: Id, digest: Bytes, created_at, expires_at);
    /// Entries of the audit log.
    AuditLog = audit_log(id: Id, account_id: Id, actor, action, object, origin);
    /// Idempotency keys with their receipts and answers.
    IdempotencyKeys = idempotency_keys(
        id: Id, account_id: Id, request: Bytes, holder: Bytes, reserved_at, action, objects,
        answer
    );
    /// Secrets that sign requests.
    SigningSecrets = signing_secrets(id: Id, account_id: Id, secret, created_at, expires_at);
    /// Notification channels.
    Channels = notification_channels(
        id: Id, account_id: Id, type, label, config, revision, verified, trouble, created_at,
        updated_at, tries_since, tries, paused_until, window_began, window_sent, digest_id: Id
    );
    /// Notification preferences of schedules.
    Preferences = notification_preferences(
        schedule_id: Id, account_id: Id, notify_on, failure_threshold, notify_on_recovery,
        repeat_every_minutes, detached
    );
    /// Channels of preferences.
    PreferenceChannels = preference_channels(
        schedule_id: Id, number, account_id: Id, channel_id: Id
    );
    /// Events that were not relayed yet.
    Events = notification_events(
        id: Id, account_id: Id, schedule_id: Id, job_id: Id, type, at, host_key, failures, wanted,
        schedule_name
    );
    /// Incidents of hosts.
    Incidents = notification_incidents(
        id: Id, account_id: Id, channel_id: Id, host_key, stage, due_at, gather_until, since,
        opened_at, last_failure_at, last_recovery_at, schedules, failing, gathered, failures,
        opening_id: Id, job_id: Id, names
    );
    /// Schedules of incidents.
    IncidentSchedules = incident_schedules(
        id: Id, account_id: Id, incident_id: Id, schedule_id: Id, failing
    );
    /// Deliveries of alerts.
    Deliveries = notification_deliveries(
        id: Id, account_id: Id, channel_id: Id, event_id: Id, schedule_id: Id, job_id: Id,
        incident_id: Id, merged_into: Id, claimed_by: Id, type, status, tries, round, failures,
        status_code, at, created_at, round_began, wake_at, started_at, completed_at,
        schedule_name, error_code, error_message, content
    );
    /// Tries of deliveries.
    DeliveryTries = delivery_tries(
        delivery_id: Id, number, account_id: Id, started_at, completed_at, status_code,
        error_code, error_message, response
    );
    /// Deleted accounts.
    DeletedAccounts = deleted_accounts(id: Id, name, deleted_at, actor, origin, gone_at);
}

impl Table {
    /// Returns the columns of the primary key but the shard.
    pub(in crate::store) const fn key(self) -> &'static [&'static str] {
        match self {
            Self::States | Self::Preferences => &["schedule_id"],
            Self::PreferenceChannels => &["schedule_id", "number"],
            Self::DeliveryTries => &["delivery_id", "number"],
            Self::AccountMonths => &["account_id", "month"],
            Self::AccountHours => &["account_id", "slot"],
            Self::Attempts => &["job_id", "number"],
            _ => &["id"],
        }
    }

    /// Returns the column of the schedule that determines the shard, if the table has a shard.
    pub(in crate::store) const fn sharded_by(self) -> Option<&'static str> {
        match self {
            Self::Schedules => Some("id"),
            Self::States | Self::Runs => Some("schedule_id"),
            _ => None,
        }
    }
}

/// Returns the number of rows of a table.
pub(in crate::store) async fn row_count(
    connection: &mut Connection<'_>,
    table: Table,
) -> SqlResult<u64> {
    let query = query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {}", table.name())));
    let rows: i64 = query.fetch_one(connection).await?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// The position of a row in the order of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// The row's id, or the first part of its key.
    pub(in crate::store) id: [u8; 16],
    /// The row's number, or the second part of its key.
    pub(in crate::store) number: i64,
}

impl RowKey {
    /// A position before all rows.
    pub const LOWEST: Self = Self { id: [0; 16], number: i64::MIN };
    /// A position after all rows.
    pub const HIGHEST: Self = Self { id: [u8::MAX; 16], number: i64::MAX };

    /// Returns the job of the row, in a table of jobs or attempts.
    pub(in crate::store) fn job(self) -> JobId {
        JobId::from_bytes(self.id)
    }
}

/// A row that is being copied.
#[derive(Clone, Debug)]
pub struct CopiedRow {
    /// The position of the row.
    pub(in crate::store) key: RowKey,
    /// The schedule that determines the shard, if the table has a shard.
    pub(in crate::store) schedule: Option<ScheduleId>,
    /// The columns but the shard, as a JSON object.
    pub(in crate::store) columns: String,
}

/// A digest of the next ticks of all schedules in a store. A copy must not change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTicks {
    /// The number of schedules that have a next tick.
    pub schedules: u64,
    /// A hash of all schedules and their next ticks, whatever their order. Only hashes that the
    /// same process computed can be compared.
    digest: u64,
}

impl NextTicks {
    /// Reads the next ticks of a store.
    pub(in crate::store) async fn read(connection: &mut Connection<'_>) -> SqlResult<Self> {
        let query = query_as(
            "SELECT s.id, st.next_tick
             FROM schedules AS s
             JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
             WHERE st.next_tick IS NOT NULL",
        );
        let (mut found, mut ticks) = (query.fetch(connection)?, Self::default());
        while let Some((schedule, tick)) = found.try_next().await? {
            ticks.add(schedule, tick);
        }
        Ok(ticks)
    }

    /// Adds a schedule whose next tick is `tick`.
    pub fn add(&mut self, schedule: ScheduleId, tick: Timestamp) {
        let mut hasher = DefaultHasher::new();
        (schedule, tick).hash(&mut hasher);
        self.schedules += 1;
        self.digest = self.digest.wrapping_add(hasher.finish());
    }
}

/// Consecutive rows in the order of their table.
#[derive(Clone, Debug)]
pub struct CopiedPage {
    /// The end of the previous page.
    pub(in crate::store) after: RowKey,
    /// The rows after `after`, up to `until`.
    pub(in crate::store) rows: Vec<CopiedRow>,
    /// The end of this page.
    pub(in crate::store) until: RowKey,
}

impl CopiedPage {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if the page has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the position after which the next page begins; `None` after the last page.
    pub fn next(&self) -> Option<RowKey> {
        (self.until != RowKey::HIGHEST).then_some(self.until)
    }

    /// Returns the rows as one JSON array, each with its shard in a store with `shards` shards, if
    /// its table has one.
    pub(in crate::store) fn json(&self, shards: u16) -> String {
        let bytes = self.rows.iter().map(|row| row.columns.len() + 16).sum::<usize>();
        let mut json = String::with_capacity(bytes + 2);
        for row in &self.rows {
            json.push(if json.is_empty() { '[' } else { ',' });
            match row.schedule {
                Some(schedule) => {
                    let shard = ShardId::of(schedule, shards);
                    json.push_str(&format!("{{\"shard\":{shard},"));
                    json.push_str(row.columns.strip_prefix('{').unwrap_or(&row.columns));
                }
                None => json.push_str(&row.columns),
            }
        }
        json.push_str(if json.is_empty() { "[]" } else { "]" });
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_ticks_tell_which_schedule_is_due_when() {
        let ticks = |due: [(u8, i64); 2]| {
            let mut ticks = NextTicks::default();
            for (schedule, at) in due {
                ticks.add(ScheduleId::from_bytes([schedule; 16]), Timestamp::from_millis(at));
            }
            ticks
        };
        assert_eq!(ticks([(1, 60_000), (2, 120_000)]), ticks([(2, 120_000), (1, 60_000)]));
        assert_ne!(ticks([(1, 60_000), (2, 120_000)]), ticks([(1, 120_000), (2, 60_000)]));
        assert_ne!(ticks([(1, 60_000), (2, 120_000)]), ticks([(1, 60_000), (3, 120_000)]));
    }

    #[test]
    fn a_page_gets_the_shards_of_the_other_store() {
        let row = |schedule: Option<u8>, columns: &str| CopiedRow {
            key: RowKey::LOWEST,
            schedule: schedule.map(|last| {
                let mut bytes = [0; 16];
                bytes[15] = last;
                ScheduleId::from_bytes(bytes)
            }),
            columns: columns.to_owned(),
        };
        let page = |rows| CopiedPage { after: RowKey::LOWEST, rows, until: RowKey::HIGHEST };
        assert_eq!(page(Vec::new()).json(4), "[]");
        let rows = vec![row(Some(7), r#"{"a":1}"#), row(None, r#"{"b":"x"}"#)];
        assert_eq!(page(rows).json(4), r#"[{"shard":3,"a":1},{"b":"x"}]"#);
    }
}
