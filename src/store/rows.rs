//! How the contract's types are read from rows, whichever database they come from. How a value is
//! stored in a column is the adapter's own.

use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use super::damage::Kept;
use super::idempotency::StoredKey;
use super::signing::SealedSecret;
use super::{Account, AuditEntry, KnownKey, Receipt};
use crate::domain::alert::AlertKind;
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::key::{KeyDigest, KeyRecord, Scope};
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::schedule::{
    CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, Schedule, Skip, UnreadableFields,
};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::{
    AccountId, AuditId, ChannelId, DeliveryId, EventId, IncidentId, JobId, KeyId, ScheduleId,
    SigningSecretId, Timestamp, VersionId,
};

/// The columns of a whole schedule and where they come from.
macro_rules! schedule_columns {
    () => {
        "s.id, s.version_id, s.name, s.description, s.is_enabled, s.overlap_policy,
         s.catch_up_policy, s.revision, s.created_at, s.updated_at, st.next_tick, st.last_run_at,
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

/// A row that can have a `T` in its columns.
pub(in crate::store) trait Holds<T> {
    fn read(&self, name: &str) -> sqlx::Result<T>;
}

impl<R, T> Holds<T> for R
where
    R: Row,
    for<'c> &'c str: ColumnIndex<R>,
    T: for<'r> Decode<'r, R::Database> + Type<R::Database>,
{
    fn read(&self, name: &str) -> sqlx::Result<T> {
        self.try_get(name)
    }
}

/// Declares a trait of the rows that can have all of these in their columns.
macro_rules! row_that_holds {
    ($(#[$doc:meta])* $name:ident: $($type:ty),* $(,)?) => {
        $(#[$doc])*
        pub(in crate::store) trait $name: Row $(+ Holds<$type> + Holds<Option<$type>>)* {}

        impl<R: Row $(+ Holds<$type> + Holds<Option<$type>>)*> $name for R {}
    };
}
pub(in crate::store) use row_that_holds;

row_that_holds! {
    /// A row of a database that an adapter stores the contract's values in.
    StoreRow: AccountId, Action, AlertKind, AuditId, CatchUpPolicy, ChannelId, ChannelType, DeliveryId,
    EventId, HostKey, HttpMethod, IncidentId, JobId, JobStatus, KeyId, NotifyOn, OverlapPolicy,
    ScheduleId, Scope, ShardId, SigningSecretId, String, Timestamp, Trigger, Vec<u8>, VersionId, bool,
    i16, i32, i64,
}

/// A number that is stored as an `S`.
pub(in crate::store) fn number<S, T: TryFrom<S>>(
    row: &impl Holds<S>,
    column: &str,
) -> sqlx::Result<T> {
    T::try_from(row.read(column)?).map_err(|_| unfit(column, "a number out of range"))
}

/// A number, or none, that is stored as an `S`.
pub(in crate::store) fn some_number<S, T: TryFrom<S>>(
    row: &impl Holds<Option<S>>,
    column: &str,
) -> sqlx::Result<Option<T>> {
    let number = row.read(column)?.map(T::try_from);
    number.transpose().map_err(|_| unfit(column, "a number out of range"))
}

/// A column with what it cannot hold.
pub(in crate::store) fn unfit(column: &str, why: &'static str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.into(), source: why.into() }
}

/// The id is in the first column.
impl<'r, R, I, T> FromRow<'r, R> for Kept<I, T>
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

impl<R: StoreRow> FromRow<'_, R> for Account {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            name: row.read("name")?,
            created_at: row.read("created_at")?,
            plan: row.read("plan")?,
            suspended_at: row.read("suspended_at")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for StoredKey {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let action: Option<Action> = row.read("action")?;
        let objects: Option<String> = row.read("objects")?;
        let objects = objects.map(|text| serde_json::from_str(&text)).transpose();
        let objects = objects.map_err(|_| unfit("objects", "not a list of ids"))?;
        Ok(Self {
            request: row.read("request")?,
            holder: row.read("holder")?,
            reserved_at: row.read("reserved_at")?,
            receipt: action.zip(objects).map(|(action, objects)| Receipt { action, objects }),
            answer: row.read("answer")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for SealedSecret {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            secret: row.read("secret")?,
            created_at: row.read("created_at")?,
            expires_at: row.read("expires_at")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for AuditEntry {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            actor: row.read("actor")?,
            action: row.read("action")?,
            object: row.read("object")?,
            origin: row.read("origin")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for KeyRecord {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            name: row.read("name")?,
            scope: row.read("scope")?,
            created_at: row.read("created_at")?,
            created_by: row.read("created_by")?,
            expires_at: row.read("expires_at")?,
            revoked_at: row.read("revoked_at")?,
            last_used_at: row.read("last_used_at")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for KnownKey {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let digest: Vec<u8> = row.read("digest")?;
        let digest = digest.try_into();
        let digest = digest.map_err(|_| unfit("digest", "a digest that is not 32 bytes long"))?;
        Ok(Self {
            account: row.read("account_id")?,
            plan: row.read("plan")?,
            digest: KeyDigest(digest),
            scope: row.read("scope")?,
            expires_at: row.read("expires_at")?,
            revoked_at: row.read("revoked_at")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for Definition {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            cron_expression: row.read("cron_expression")?,
            timezone: row.read("timezone")?,
            endpoint: row.read("endpoint")?,
            http_method: row.read("http_method")?,
            body: row.read("body")?,
            headers: row.read("headers")?,
            max_retries: number::<i16, _>(row, "max_retries")?,
            timeout_seconds: number::<i16, _>(row, "timeout_seconds")?,
            expected_status_codes: row.read("expected_status_codes")?,
            sign_requests: row.read("sign_requests")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for Schedule {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            name: row.read("name")?,
            description: row.read("description")?,
            version: row.read("version_id")?,
            definition: Definition::from_row(row)?,
            unreadable: UnreadableFields::default(),
            is_enabled: row.read("is_enabled")?,
            overlap_policy: row.read("overlap_policy")?,
            catch_up_policy: row.read("catch_up_policy")?,
            next_tick: row.read("next_tick")?,
            last_run_at: row.read("last_run_at")?,
            last_job_status: row.read("last_job_status")?,
            consecutive_failures: number::<i32, _>(row, "consecutive_failures")?,
            created_at: row.read("created_at")?,
            updated_at: row.read("updated_at")?,
            revision: row.read("revision")?,
        })
    }
}

/// A skip and its row.
pub(in crate::store) struct ListedSkip {
    id: i64,
    skip: Skip,
}

impl<R: StoreRow> FromRow<'_, R> for ListedSkip {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let skip = Skip {
            first: row.read("first_tick")?,
            last: row.read("last_tick")?,
            count: number::<i32, _>(row, "count")?,
            reason: row.read("reason")?,
        };
        Ok(Self { id: row.read("id")?, skip })
    }
}

impl ListedSkip {
    /// The skip, and where it is among those of an account.
    pub(in crate::store) fn placed(self) -> ((Timestamp, i64), Skip) {
        ((self.skip.first, self.id), self.skip)
    }
}
