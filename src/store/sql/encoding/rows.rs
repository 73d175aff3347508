//! Reads the contract's types from rows of either database. Each adapter defines how a value is
//! stored in a column.

use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use crate::domain::alert::AlertKind;
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::key::{KeyDigest, KeyRecord, Scope};
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::schedule::{
    CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, PauseNote, Schedule, Skip,
    UnreadableFields,
};
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::user::Role;
use crate::domain::{
    AccountId, AuditId, ChannelId, DeliveryId, EventId, IncidentId, InvitationId, JobId, KeyId,
    ScheduleId, SessionId, SigningSecretId, Timestamp, UserId, VersionId,
};
use crate::store::contract::idempotency::StoredKey;
use crate::store::contract::signing::SealedSecret;
use crate::store::corrupt_rows::ReadableRow;
use crate::store::{
    Account, AuditEntry, ExecutorId, KnownKey, Receipt, RecordedAttempt, RecurrenceCount,
};

/// The columns of a whole schedule, from its row `s`, its state `st` and its version `v`.
macro_rules! schedule_columns {
    () => {
        "s.id, s.version_id, s.name, s.description, s.is_enabled, s.overlap_policy,
         s.catch_up_policy, s.revision, s.created_at, s.updated_at, s.pause_note, s.paused_by,
         s.paused_at, st.next_tick, st.last_run_at,
         st.last_job_status, st.consecutive_failures, v.cron_expression, v.timezone, v.endpoint,
         v.http_method, v.body, v.headers, v.max_retries, v.timeout_seconds,
         v.expected_status_codes, v.sign_requests"
    };
}
pub(in crate::store) use schedule_columns;

/// The columns of an account.
macro_rules! account_columns {
    () => {
        "id, name, created_at, plan, suspended_at"
    };
}
pub(in crate::store) use account_columns;

/// A row whose columns can be read as a `T`.
pub(in crate::store) trait ReadColumn<T> {
    fn read(&self, name: &str) -> sqlx::Result<T>;
}

impl<R, T> ReadColumn<T> for R
where
    R: Row,
    for<'c> &'c str: ColumnIndex<R>,
    T: for<'r> Decode<'r, R::Database> + Type<R::Database>,
{
    fn read(&self, name: &str) -> sqlx::Result<T> {
        self.try_get(name)
    }
}

/// Declares [`StoreRow`] with the types of its columns. Each column may be null.
macro_rules! store_row {
    ($($type:ty),* $(,)?) => {
        /// A row of either database. Its columns can be read as any stored type of the contract.
        pub(in crate::store) trait StoreRow: Row $(+ ReadColumn<$type> + ReadColumn<Option<$type>>)* {}

        impl<R: Row $(+ ReadColumn<$type> + ReadColumn<Option<$type>>)*> StoreRow for R {}
    };
}

store_row! {
    AccountId, Action, AlertKind, AuditId, CatchUpPolicy, ChannelId, ChannelType, DeliveryId,
    EventId, ExecutorId, HostKey, HttpMethod, IncidentId, InvitationId, JobId, JobStatus, KeyId,
    NotifyOn, OverlapPolicy, Role, ScheduleId, Scope, SessionId, ShardId, SigningSecretId, String,
    Timestamp, Trigger, UserId, Vec<u8>, VersionId, bool, i16, i32, i64,
}

/// Implements [`FromRow`] for structs, for the rows of both databases. A field is read from the
/// column with its name, unless the declaration says otherwise.
///
/// ```ignore
/// read_rows! {
///     Delivery {
///         id,                            // The column `id`.
///         channel: "channel_id",         // Another column.
///         tries_made: "tries" as i16,    // A number that is stored as an `i16`.
///         status_code as Option<i32>,    // The same, or null.
///         policy: _,                     // A struct, read from the same row.
///         error_code by delivery_error,  // The result of a function of the row.
///         changed = false,               // A value that is not stored.
///     }
/// }
/// ```
macro_rules! read_rows {
    (@column $field:ident) => { stringify!($field) };
    (@column $field:ident $column:literal) => { $column };
    (@field $row:ident $field:ident : _) => { sqlx::FromRow::from_row($row)? };
    (@field $row:ident $field:ident by $read:path) => { $read($row)? };
    (@field $row:ident $field:ident = $value:expr) => { $value };
    (@field $row:ident $field:ident $(: $column:literal)?) => {
        $row.read($crate::store::sql::encoding::rows::read_rows!(@column $field $($column)?))?
    };
    (@field $row:ident $field:ident $(: $column:literal)? as Option<$stored:ident>) => {{
        let column = $crate::store::sql::encoding::rows::read_rows!(@column $field $($column)?);
        $crate::store::sql::encoding::rows::some_number::<$stored, _>($row, column)?
    }};
    (@field $row:ident $field:ident $(: $column:literal)? as $stored:ident) => {{
        let column = $crate::store::sql::encoding::rows::read_rows!(@column $field $($column)?);
        $crate::store::sql::encoding::rows::number::<$stored, _>($row, column)?
    }};
    ($($name:ident {
        $($field:ident $(: $column:tt)? $(as $stored:ident $(<$number:ident>)?)? $(by $read:path)?
          $(= $value:expr)?),* $(,)?
    })*) => {$(
        impl<R: $crate::store::sql::encoding::rows::StoreRow> sqlx::FromRow<'_, R> for $name {
            fn from_row(row: &R) -> sqlx::Result<Self> {
                Ok(Self {
                    $($field: $crate::store::sql::encoding::rows::read_rows!(
                        @field row $field $(: $column)? $(as $stored $(<$number>)?)? $(by $read)?
                        $(= $value)?
                    )),*
                })
            }
        }
    )*};
}
pub(in crate::store) use read_rows;

/// Reads a number that is stored as an `S`.
pub(in crate::store) fn number<S, T: TryFrom<S>>(
    row: &impl ReadColumn<S>,
    column: &str,
) -> sqlx::Result<T> {
    T::try_from(row.read(column)?).map_err(|_| unfit(column, "a number out of range"))
}

/// Reads a number that is stored as an `S` and may be null.
pub(in crate::store) fn some_number<S, T: TryFrom<S>>(
    row: &impl ReadColumn<Option<S>>,
    column: &str,
) -> sqlx::Result<Option<T>> {
    let number = row.read(column)?.map(T::try_from);
    number.transpose().map_err(|_| unfit(column, "a number out of range"))
}

/// Returns the error of a column whose value is not valid.
pub(in crate::store) fn unfit(column: &str, why: &'static str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.into(), source: why.into() }
}

/// Reads the id from the first column, even if the rest of the row cannot be read.
impl<'r, R, I, T> FromRow<'r, R> for ReadableRow<I, T>
where
    R: Row,
    usize: ColumnIndex<R>,
    I: Decode<'r, R::Database> + Type<R::Database>,
    T: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self { id: row.try_get(0)?, row: T::from_row(row).map_err(|error| error.to_string()) })
    }
}

/// A skip with the id of its row.
pub(in crate::store) struct ListedSkip {
    id: i64,
    skip: Skip,
}

read_rows! {
    Account { id, name, created_at, plan, suspended_at }
    AuditEntry { id, actor, action, object, origin }
    Definition {
        cron_expression, timezone, endpoint, http_method, body, headers, max_retries as i16,
        timeout_seconds as i16, expected_status_codes, sign_requests,
    }
    RecordedAttempt {
        job: "id", attempt: "attempt_number" as i16, max_attempts as i16, executor: "claimed_by",
        until: "alive_until",
    }
    KeyRecord {
        id, name, scope, created_at, created_by, expires_at, revoked_at, last_used_at,
    }
    KnownKey {
        account: "account_id", plan, digest by key_digest, scope, expires_at, revoked_at,
    }
    ListedSkip { id, skip: _ }
    RecurrenceCount { cron_expression, timezone, schedules as i64 }
    Schedule {
        id, name, description, version: "version_id", definition: _,
        unreadable = UnreadableFields::default(), is_enabled, pause by pause_note, overlap_policy,
        catch_up_policy, next_tick, last_run_at, last_job_status, consecutive_failures as i32, created_at,
        updated_at, revision,
    }
    SealedSecret { id, secret, created_at, expires_at }
    Skip { first: "first_tick", last: "last_tick", count as i32, reason }
    StoredKey { request, holder, reserved_at, receipt by receipt, answer }
    Ticket { job: "id", shard, account: "account_id", host: "host_key", start: "wake_at" }
}

fn key_digest(row: &impl ReadColumn<Vec<u8>>) -> sqlx::Result<KeyDigest> {
    let digest = row.read("digest")?.try_into().map(KeyDigest);
    digest.map_err(|_| unfit("digest", "a digest that is not 32 bytes long"))
}

/// Reads the note of a pause. An earlier release that enables a schedule leaves the note.
fn pause_note(row: &impl StoreRow) -> sqlx::Result<Option<PauseNote>> {
    let is_enabled: bool = row.read("is_enabled")?;
    let (text, author) = (row.read("pause_note")?, row.read("paused_by")?);
    let (Some(text), Some(author), Some(at), false) =
        (text, author, row.read("paused_at")?, is_enabled)
    else {
        return Ok(None);
    };
    Ok(Some(PauseNote { text, author, at }))
}

fn receipt(row: &impl StoreRow) -> sqlx::Result<Option<Receipt>> {
    let action: Option<Action> = row.read("action")?;
    let objects: Option<String> = row.read("objects")?;
    let objects = objects.map(|text| serde_json::from_str(&text)).transpose();
    let objects = objects.map_err(|_| unfit("objects", "not a list of ids"))?;
    Ok(action.zip(objects).map(|(action, objects)| Receipt { action, objects }))
}

impl ListedSkip {
    /// Returns the skip with its position in the order of a list: its first tick and its id.
    pub(in crate::store) fn placed(self) -> ((Timestamp, i64), Skip) {
        ((self.skip.first, self.id), self.skip)
    }
}
