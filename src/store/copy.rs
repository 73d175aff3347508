//! Copying a store into one of another kind: its tables, and rows on their way.
//!
//! Each table is read in the order of its key and written page by page. A page replaces what the
//! other store has between the end of the page before and its own end, so that a copy that is
//! repeated adds what is new, changes what has changed, takes away what is gone, and touches
//! nothing else.
//!
//! Not copied: `meta`, which is how a store is set up, `secret_keys`, which the other store must have
//! anyway, and `shards`, whose epochs fence the leaders of one store from each other and mean nothing
//! in another one. The number of shards may differ, so the shard of a schedule is worked out anew,
//! from its id.

use std::future::ready;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::{Stream, TryStreamExt};

pub(in crate::store) use super::form::Form;
use super::sql::users::statements as user_rows;
use super::{alerts, channels, columns, idempotency, preferences, signing};
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp};

/// How many rows are on their way at once, at most.
pub(in crate::store) const PAGE_ROWS: usize = 1_000;
/// How many bytes they have, give or take a row.
pub(in crate::store) const PAGE_BYTES: usize = 4 << 20;

/// A table that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Accounts.
    Accounts,
    /// How many jobs they have made in a month.
    AccountMonths,
    /// Their keys.
    ApiKeys,
    /// What schedules are.
    Schedules,
    /// How they were defined.
    Versions,
    /// What firing and committing change.
    States,
    /// Who runs jobs, and until when.
    Executors,
    /// Jobs that have not finished.
    Runs,
    /// Those that have, with their last attempt.
    Jobs,
    /// The attempts before.
    Attempts,
    /// Ticks that became no jobs.
    Skips,
    /// Users.
    Users,
    /// What they belong to.
    Memberships,
    /// Who is to belong to it, too.
    Invitations,
    /// Who has signed in.
    Sessions,
    /// Who may set a password anew.
    Resets,
    /// Who changed what.
    AuditLog,
    /// Calls that take effect once.
    IdempotencyKeys,
    /// What requests are signed with.
    SigningSecrets,
    /// Where alerts go.
    Channels,
    /// Which outcomes of schedules are told.
    Preferences,
    /// On which channels.
    PreferenceChannels,
    /// What is to be told.
    Events,
    /// Hosts that schedules fail against.
    Incidents,
    /// The schedules that do.
    IncidentSchedules,
    /// What was told, and is to be.
    Deliveries,
    /// How often that was tried.
    DeliveryTries,
    /// Accounts that were deleted.
    DeletedAccounts,
}

impl Table {
    /// All of them, in the order in which they are copied.
    pub const ALL: [Self; 28] = [
        Self::Accounts,
        Self::AccountMonths,
        Self::ApiKeys,
        Self::Schedules,
        Self::Versions,
        Self::States,
        Self::Executors,
        Self::Runs,
        Self::Jobs,
        Self::Attempts,
        Self::Skips,
        Self::Users,
        Self::Memberships,
        Self::Invitations,
        Self::Sessions,
        Self::Resets,
        Self::AuditLog,
        Self::IdempotencyKeys,
        Self::SigningSecrets,
        Self::Channels,
        Self::Preferences,
        Self::PreferenceChannels,
        Self::Events,
        Self::Incidents,
        Self::IncidentSchedules,
        Self::Deliveries,
        Self::DeliveryTries,
        Self::DeletedAccounts,
    ];

    /// Its name, in either kind of store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::AccountMonths => "account_months",
            Self::ApiKeys => "api_keys",
            Self::Schedules => "schedules",
            Self::Versions => "schedule_versions",
            Self::States => "schedule_state",
            Self::Executors => "executors",
            Self::Runs => "runs",
            Self::Jobs => "jobs",
            Self::Attempts => "attempts",
            Self::Skips => "skips",
            Self::Users => "users",
            Self::Memberships => "memberships",
            Self::Invitations => "invitations",
            Self::Sessions => "sessions",
            Self::Resets => "password_resets",
            Self::AuditLog => "audit_log",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::SigningSecrets => "signing_secrets",
            Self::Channels => "notification_channels",
            Self::Preferences => "notification_preferences",
            Self::PreferenceChannels => "preference_channels",
            Self::Events => "notification_events",
            Self::Incidents => "notification_incidents",
            Self::IncidentSchedules => "incident_schedules",
            Self::Deliveries => "notification_deliveries",
            Self::DeliveryTries => "delivery_tries",
            Self::DeletedAccounts => "deleted_accounts",
        }
    }

    /// The columns of its key, but for the shard.
    pub(in crate::store) const fn key(self) -> &'static [&'static str] {
        match self {
            Self::States | Self::Preferences => &["schedule_id"],
            Self::PreferenceChannels => &["schedule_id", "number"],
            Self::DeliveryTries => &["delivery_id", "number"],
            Self::AccountMonths => &["account_id", "month"],
            Self::Attempts => &["job_id", "number"],
            _ => &["id"],
        }
    }

    /// The column that names the schedule, by which the shard is found; absent where there is no
    /// shard.
    pub(in crate::store) const fn sharded_by(self) -> Option<&'static str> {
        match self {
            Self::Schedules => Some("id"),
            Self::States | Self::Runs => Some("schedule_id"),
            _ => None,
        }
    }

    /// All columns but the shard.
    pub(in crate::store) const fn columns(self) -> &'static [(&'static str, Form)] {
        match self {
            Self::Accounts => columns::ACCOUNTS,
            Self::AccountMonths => columns::ACCOUNT_MONTHS,
            Self::ApiKeys => columns::API_KEYS,
            Self::Schedules => columns::SCHEDULES,
            Self::Versions => columns::VERSIONS,
            Self::States => columns::STATES,
            Self::Executors => columns::EXECUTORS,
            Self::Runs => columns::RUNS,
            Self::Jobs => columns::JOBS,
            Self::Attempts => columns::ATTEMPTS,
            Self::Skips => columns::SKIPS,
            Self::Users => user_rows::USERS_COPIED,
            Self::Memberships => user_rows::MEMBERSHIPS_COPIED,
            Self::Invitations => user_rows::INVITATIONS_COPIED,
            Self::Sessions => user_rows::SESSIONS_COPIED,
            Self::Resets => user_rows::RESETS_COPIED,
            Self::AuditLog => columns::AUDIT_LOG,
            Self::IdempotencyKeys => idempotency::COPIED,
            Self::SigningSecrets => signing::COPIED,
            Self::Channels => channels::COPIED,
            Self::Preferences => preferences::COPIED,
            Self::PreferenceChannels => preferences::CHANNELS_COPIED,
            Self::Events => alerts::EVENTS_COPIED,
            Self::Incidents => alerts::INCIDENTS_COPIED,
            Self::IncidentSchedules => alerts::INCIDENT_SCHEDULES_COPIED,
            Self::Deliveries => alerts::DELIVERIES_COPIED,
            Self::DeliveryTries => alerts::TRIES_COPIED,
            Self::DeletedAccounts => columns::DELETED_ACCOUNTS,
        }
    }
}

/// Where a row is in the order of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// Its id, or the first part of its key.
    pub(in crate::store) id: [u8; 16],
    /// Its number, or the second part.
    pub(in crate::store) number: i64,
}

impl RowKey {
    /// Before all rows.
    pub const LOWEST: Self = Self { id: [0; 16], number: i64::MIN };
    /// After all rows.
    pub const HIGHEST: Self = Self { id: [u8::MAX; 16], number: i64::MAX };

    /// For a table of jobs or attempts: the job.
    pub(in crate::store) fn job(self) -> JobId {
        JobId::from_bytes(self.id)
    }
}

/// A row on its way.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it is.
    pub(in crate::store) key: RowKey,
    /// By which its shard is found, where there is one.
    pub(in crate::store) schedule: Option<ScheduleId>,
    /// Its columns but the shard, as a JSON object.
    pub(in crate::store) columns: String,
}

/// When each schedule of a store is due next, in short: what a copy must not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTicks {
    /// How many schedules are due again.
    pub schedules: u64,
    /// Which, and when each of them is, whatever their order. Only one of the same process compares.
    digest: u64,
}

impl NextTicks {
    /// Reads them from either store.
    pub(in crate::store) const QUERY: &'static str = "
        SELECT s.id, st.next_tick
        FROM schedules AS s
        JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
        WHERE st.next_tick IS NOT NULL";

    /// Of the schedules that `QUERY` finds.
    pub(in crate::store) async fn of<E>(
        found: impl Stream<Item = Result<(ScheduleId, Timestamp), E>>,
    ) -> Result<Self, E> {
        let add = |mut ticks: Self, (schedule, tick)| {
            ticks.add(schedule, tick);
            ready(Ok(ticks))
        };
        found.try_fold(Self::default(), add).await
    }

    /// Takes in a schedule that is due at `tick`.
    pub fn add(&mut self, schedule: ScheduleId, tick: Timestamp) {
        let mut hasher = DefaultHasher::new();
        (schedule, tick).hash(&mut hasher);
        self.schedules += 1;
        self.digest = self.digest.wrapping_add(hasher.finish());
    }
}

/// Rows that follow each other in the order of their table.
#[derive(Clone, Debug)]
pub struct Page {
    /// The end of the page before.
    pub(in crate::store) after: RowKey,
    /// The rows, some of those up to `until`.
    pub(in crate::store) rows: Vec<Row>,
    /// Its end.
    pub(in crate::store) until: RowKey,
}

impl Page {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where to go on; nothing after the last page.
    pub fn next(&self) -> Option<RowKey> {
        (self.until != RowKey::HIGHEST).then_some(self.until)
    }

    /// Its rows as one JSON array, with the shards that they have where there are `shards`.
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
        let row = |schedule: Option<u8>, columns: &str| Row {
            key: RowKey::LOWEST,
            schedule: schedule.map(|last| {
                let mut bytes = [0; 16];
                bytes[15] = last;
                ScheduleId::from_bytes(bytes)
            }),
            columns: columns.to_owned(),
        };
        let page = |rows| Page { after: RowKey::LOWEST, rows, until: RowKey::HIGHEST };
        assert_eq!(page(Vec::new()).json(4), "[]");
        let rows = vec![row(Some(7), r#"{"a":1}"#), row(None, r#"{"b":"x"}"#)];
        assert_eq!(page(rows).json(4), r#"[{"shard":3,"a":1},{"b":"x"}]"#);
    }
}
