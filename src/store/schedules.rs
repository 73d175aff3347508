//! Schedules: what users do with them.

use super::{Result, Write};
use crate::domain::audit::Action;
use crate::domain::schedule::{
    CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, Schedule, Skip,
};
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;

/// A version to be stored. Its definition has been checked.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// Its id.
    pub id: VersionId,
    /// What it says.
    pub definition: Definition,
    /// The host its endpoint names, for tickets.
    pub host: HostKey,
}

/// A schedule to be stored.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// Its id.
    pub id: ScheduleId,
    /// The shard that follows from the id.
    pub shard: ShardId,
    /// 1 to 255 characters.
    pub name: String,
    /// At most 1000 characters.
    pub description: Option<String>,
    /// Its first version.
    pub version: NewVersion,
    /// Whether its ticks fire.
    pub is_enabled: bool,
    /// See the type.
    pub overlap_policy: OverlapPolicy,
    /// See the type.
    pub catch_up_policy: CatchUpPolicy,
    /// Its first tick; absent while disabled.
    pub next_tick: Option<Timestamp>,
}

/// What became of schedules to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// They are there.
    All,
    /// None is there: they would be too many beside those that the account has.
    TooMany {
        /// How many it has.
        current: u64,
    },
}

/// The state that a change was worked out from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// As read.
    pub revision: i64,
    /// As read: a tick fired in between makes the change stale too.
    pub next_tick: Option<Timestamp>,
}

/// Consecutive ticks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRange {
    /// The first.
    pub first: Timestamp,
    /// The last.
    pub last: Timestamp,
    /// How many, exact to `SKIP_COUNT_CAP`.
    pub count: u32,
}

/// A schedule's new state, whole.
#[derive(Clone, Debug)]
pub struct Change {
    /// What the audit log calls it.
    pub action: Action,
    /// What it was worked out from.
    pub expected: Expected,
    /// The new name.
    pub name: String,
    /// The new description.
    pub description: Option<String>,
    /// The new version, if the definition changes.
    pub version: Option<NewVersion>,
    /// The new switch.
    pub is_enabled: bool,
    /// The new policy. Away from `allow`, the newest unfinished job of a tick becomes the active
    /// one; to `allow`, a held job starts.
    pub overlap_policy: OverlapPolicy,
    /// The new policy.
    pub catch_up_policy: CatchUpPolicy,
    /// The new next tick.
    pub next_tick: Option<Timestamp>,
    /// Due ticks that have not fired and now never will: recorded as `superseded` skips.
    pub superseded: Option<TickRange>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Done. Tickets are of a held job that may start now.
    Done(Vec<Ticket>),
    /// The schedule is no longer as it was read: read it again.
    Stale,
    /// The account has no such schedule.
    NotFound,
}

/// What schedules can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortField {
    /// The name, by code point.
    Name,
    /// The next tick; absent ones first when ascending.
    NextTick,
    /// The last run; absent ones first when ascending.
    LastRun,
    /// The time of creation.
    CreatedAt,
}

/// An order; ties are broken by id in the same direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleSort {
    /// By what.
    pub field: SortField,
    /// Largest first.
    pub descending: bool,
}

/// The value of a sort field at which a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortValue {
    /// Of `SortField::Name`.
    Text(String),
    /// Of the others.
    Time(Option<Timestamp>),
}

/// Which schedules to list.
#[derive(Clone, Debug)]
pub struct ScheduleQuery {
    /// Contained in name, description or endpoint; ASCII letters in any case.
    pub contains: Option<String>,
    /// Only (not) enabled ones.
    pub is_enabled: Option<bool>,
    /// Only of this method.
    pub http_method: Option<HttpMethod>,
    /// The order.
    pub sort: ScheduleSort,
    /// Only what comes after this one in the order; then `offset` is 0.
    pub after: Option<(SortValue, ScheduleId)>,
    /// How many to pass over first.
    pub offset: u64,
    /// How many at most.
    pub limit: u32,
    /// The page ends before its bodies, headers and texts exceed this, but holds at least one.
    pub max_bytes: usize,
}

/// Some of the schedules that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePage {
    /// In the query's order.
    pub schedules: Vec<Schedule>,
    /// How many the filters let through in all.
    pub total: u64,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

/// Which skips to list: newest first, those that touch `from..=to`.
#[derive(Clone, Debug)]
pub struct SkipQuery {
    /// Not those that end before.
    pub from: Option<Timestamp>,
    /// Not those that begin after.
    pub to: Option<Timestamp>,
    /// Only after this position: `first` of the last one seen, and its row.
    pub after: Option<(Timestamp, i64)>,
    /// How many at most.
    pub limit: u32,
}

/// Some of a schedule's skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipPage {
    /// Newest first.
    pub skips: Vec<Skip>,
    /// Where to go on, if there are more.
    pub next: Option<(Timestamp, i64)>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Schedules: what users do with them.
    pub trait ScheduleStore: Send + Sync {
        /// Stores all of them or, on an error, none. If the account may have at most so many, it never
        /// has more, however many are made at once.
        async fn create_schedules(
            &self,
            write: &Write,
            schedules: &[NewSchedule],
            most: Option<u64>,
        ) -> Result<Created>;

        /// One schedule.
        async fn schedule(&self, account: AccountId, id: ScheduleId) -> Result<Option<Schedule>>;

        /// Lists schedules.
        async fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> Result<SchedulePage>;

        /// Changes a schedule if it is still as it was read.
        async fn change_schedule(
            &self,
            write: &Write,
            id: ScheduleId,
            change: &Change,
        ) -> Result<Changed>;

        /// Deletes a schedule, locking its row first; then ends its waiting jobs (held ones too) as
        /// FAILED `CANCELLED` and forbids running ones a further attempt (TICK-4). `false` if the
        /// account has no such schedule. Jobs and the versions they use stay.
        async fn delete_schedule(&self, write: &Write, id: ScheduleId) -> Result<bool>;

        /// Lists the skips of a schedule that exists.
        async fn skips(
            &self,
            account: AccountId,
            id: ScheduleId,
            query: &SkipQuery,
        ) -> Result<SkipPage>;
    }
}

/// A disabled schedule has no next tick, whatever was said (TICK-4).
pub(in crate::store) fn next_tick(
    is_enabled: bool,
    next_tick: Option<Timestamp>,
) -> Option<Timestamp> {
    next_tick.filter(|_| is_enabled)
}
