//! Schedules: creating, reading, changing and deleting them for users.

use crate::domain::audit::Action;
use crate::domain::schedule::{
    CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, PauseNote, Schedule, Skip,
};
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::store::{Result, StoredVersion, WriteContext};

/// A version to be stored. Its definition was validated before.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// The id of the version.
    pub id: VersionId,
    /// The definition.
    pub definition: Definition,
    /// The key of the endpoint's host, for tickets.
    pub host: HostKey,
}

/// A schedule to be stored.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// The id of the schedule.
    pub id: ScheduleId,
    /// The shard, which follows from the id.
    pub shard: ShardId,
    /// The name, 1 to 255 characters.
    pub name: String,
    /// The description, at most 1000 characters.
    pub description: Option<String>,
    /// The first version.
    pub version: NewVersion,
    /// `true` if the schedule's ticks fire.
    pub is_enabled: bool,
    /// The rule for a tick that is due while a job of the schedule is active.
    pub overlap_policy: OverlapPolicy,
    /// The rule for ticks that are over a minute late.
    pub catch_up_policy: CatchUpPolicy,
    /// The first tick; absent while the schedule is disabled.
    pub next_tick: Option<Timestamp>,
}

/// The result of storing schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationResult {
    /// All were stored.
    All,
    /// None was stored: together with the account's present schedules they would exceed its limit.
    TooMany {
        /// The number of schedules that the account has.
        current: u64,
    },
}

/// The state that a change was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedState {
    /// The revision that was read.
    pub revision: i64,
    /// The next tick that was read: a tick that fires in between makes the change stale, too.
    pub next_tick: Option<Timestamp>,
}

/// Consecutive ticks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRange {
    /// The first tick.
    pub first: Timestamp,
    /// The last tick.
    pub last: Timestamp,
    /// The number of ticks, exact up to `SKIP_COUNT_CAP`.
    pub count: u32,
}

/// The complete new state of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleState {
    /// The action for the audit log.
    pub action: Action,
    /// The state that the change was computed from.
    pub expected: ExpectedState,
    /// The new name.
    pub name: String,
    /// The new description.
    pub description: Option<String>,
    /// The new version, if the definition changes.
    pub version: Option<NewVersion>,
    /// The new switch.
    pub is_enabled: bool,
    /// The new note of the pause. An enabled schedule reads back without one.
    pub pause: Option<PauseNote>,
    /// The new overlap policy. If it changes from `allow`, the newest unfinished job of a tick
    /// becomes the active one; if it changes to `allow`, a held job starts.
    pub overlap_policy: OverlapPolicy,
    /// The new catch-up policy.
    pub catch_up_policy: CatchUpPolicy,
    /// The new next tick.
    pub next_tick: Option<Timestamp>,
    /// Due ticks that have not fired and never will: they are recorded as `superseded` skips.
    pub superseded: Option<TickRange>,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleChangeResult {
    /// The change took effect. The ticket is that of a held job that may start now.
    Done(Vec<Ticket>),
    /// The schedule has changed since it was read: read it again.
    Stale,
    /// The account has no such schedule.
    NotFound,
}

/// The fields by which schedules can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortField {
    /// The name, by code point.
    Name,
    /// The next tick; schedules without one come first in ascending order.
    NextTick,
    /// The last run; schedules without one come first in ascending order.
    LastRun,
    /// The time of creation.
    CreatedAt,
}

/// The order of a list. Ties are broken by id, in the same direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleSort {
    /// The field.
    pub field: SortField,
    /// `true` if the largest value comes first.
    pub descending: bool,
}

/// The value of the sort field at the end of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortValue {
    /// The value of `SortField::Name`.
    Text(String),
    /// The value of the other fields.
    Time(Option<Timestamp>),
}

/// The filters and the page of a list of schedules.
#[derive(Clone, Debug)]
pub struct ScheduleQuery {
    /// A text that the name, the description or the endpoint contains; the case of ASCII letters is
    /// ignored.
    pub contains: Option<String>,
    /// Only schedules that are enabled, or only those that are not.
    pub is_enabled: Option<bool>,
    /// Only schedules with this HTTP method.
    pub http_method: Option<HttpMethod>,
    /// Only enabled schedules whose last job failed, or only the other ones. A paused schedule does
    /// not fail any more, whatever its last job did.
    pub is_failing: Option<bool>,
    /// The order.
    pub sort: ScheduleSort,
    /// Only schedules after this one in the order of the list; then `offset` is 0.
    pub after: Option<(SortValue, ScheduleId)>,
    /// The number of schedules to skip.
    pub offset: u64,
    /// The maximum number of schedules.
    pub limit: u32,
    /// The maximum total size of bodies, headers and texts on the page, in bytes. The page has at
    /// least one schedule even if that exceeds it.
    pub max_bytes: usize,
}

/// A page of a list of schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePage {
    /// The schedules, in the order of the query.
    pub schedules: Vec<Schedule>,
    /// The number of schedules that pass the filters.
    pub total: u64,
    /// `true` if more schedules follow.
    pub has_more: bool,
}

/// The filters and the page of a list of skips that overlap `from..=to`, newest first.
#[derive(Clone, Debug)]
pub struct SkipQuery {
    /// Only skips that end at this time or later.
    pub from: Option<Timestamp>,
    /// Only skips that begin at this time or earlier.
    pub to: Option<Timestamp>,
    /// Only skips after this position: the `first` of the last one seen, and its row.
    pub after: Option<(Timestamp, i64)>,
    /// The maximum number of skips.
    pub limit: u32,
}

/// A page of a schedule's skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipPage {
    /// The skips, newest first.
    pub skips: Vec<Skip>,
    /// The position after which the next page begins, if there is one.
    pub next: Option<(Timestamp, i64)>,
}

/// A version of a schedule, with the author of the change that created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoredVersion {
    /// The version.
    pub version: StoredVersion,
    /// The author: the text of an [`Actor`](crate::domain::audit::Actor). Absent if the audit log
    /// no longer contains the change.
    pub author: Option<String>,
}

/// A page of the versions of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionPage {
    /// The versions, newest first.
    pub versions: Vec<AuthoredVersion>,
    /// The number of all stored versions of the schedule.
    pub total: u64,
}

/// A cron expression in a timezone, and the number of schedules with both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurrenceCount {
    /// The cron expression.
    pub cron_expression: String,
    /// The timezone.
    pub timezone: String,
    /// The number of schedules.
    pub schedules: u64,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Schedules: creating, reading, changing and deleting them for users.
    pub trait ScheduleStore: Send + Sync {
        /// Stores all schedules or, on an error, none. If `most` limits the account's schedules,
        /// concurrent calls never exceed it.
        async fn create_schedules(
            &self,
            write: &WriteContext,
            schedules: &[NewSchedule],
            most: Option<u64>,
        ) -> Result<CreationResult>;

        /// Returns one schedule.
        async fn schedule(&self, account: AccountId, id: ScheduleId) -> Result<Option<Schedule>>;

        /// Lists schedules.
        async fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> Result<SchedulePage>;

        /// Lists at most `limit` stored versions of a schedule, newest first, from the version
        /// `from` on or from the current one. The list is empty if the account has no such
        /// schedule.
        async fn schedule_versions(
            &self,
            account: AccountId,
            id: ScheduleId,
            from: Option<VersionId>,
            limit: u32,
        ) -> Result<VersionPage>;

        /// Counts the account's enabled schedules by cron expression and timezone. Returns at most
        /// `limit` different pairs, those of most schedules first.
        async fn recurrences(&self, account: AccountId, limit: u32) -> Result<Vec<RecurrenceCount>>;

        /// Changes a schedule if it has not changed since it was read.
        async fn change_schedule(
            &self,
            write: &WriteContext,
            id: ScheduleId,
            change: &ScheduleState,
        ) -> Result<ScheduleChangeResult>;

        /// Deletes a schedule. It locks the schedule's row first. It then ends the waiting jobs,
        /// including held ones, as FAILED `CANCELLED`, and forbids running jobs a further attempt
        /// (TICK-4). Jobs and the versions that they use stay. Returns `false` if the account has
        /// no such schedule.
        async fn delete_schedule(&self, write: &WriteContext, id: ScheduleId) -> Result<bool>;

        /// Lists the skips of a schedule. The list is empty if the account has no such schedule.
        async fn skips(
            &self,
            account: AccountId,
            id: ScheduleId,
            query: &SkipQuery,
        ) -> Result<SkipPage>;
    }
}

/// Returns the next tick to store. A disabled schedule has none, whatever the caller asked for
/// (TICK-4).
pub(in crate::store) fn next_tick(
    is_enabled: bool,
    next_tick: Option<Timestamp>,
) -> Option<Timestamp> {
    next_tick.filter(|_| is_enabled)
}
