//! How the rows of alerts are read, whichever database they come from.

use sqlx::FromRow;

use super::alert_items::{Event, PlannedChannel, PlannedIncident};
use super::preferences::policy_of;
use super::rows::{StoreRow, number, some_number, unfit};
use super::{Delivery, DeliveryTry};
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::alert::grouping::{ChannelFlow, IncidentState, Stage};
use crate::domain::alert::policy::{AlertPolicy, Streak};
use crate::domain::shard::ShardId;
use crate::domain::{ChannelId, DeliveryId, ScheduleId, Timestamp};

/// What the state of a schedule says of its alerts: the columns of the policy, failures in a row before
/// the batch, and when one of them was last told.
pub(in crate::store) type AlertColumns =
    (Option<i16>, Option<i32>, Option<i32>, Option<i64>, Option<i64>);

/// A schedule of a batch that has a policy, as it was before the batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct AlertState {
    pub(in crate::store) shard: ShardId,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) policy: AlertPolicy,
    pub(in crate::store) streak: Streak,
}

impl AlertState {
    /// What the columns of a schedule say.
    pub(in crate::store) fn new(
        shard: ShardId,
        schedule: ScheduleId,
        columns: AlertColumns,
    ) -> Self {
        let (alert_on, threshold, repeat, failures, told_at) = columns;
        let failures = failures.and_then(|failures| u32::try_from(failures).ok());
        let streak = Streak {
            failures: failures.unwrap_or(0),
            told_at: told_at.map(Timestamp::from_millis),
        };
        Self { shard, schedule, policy: policy_of((alert_on, threshold, repeat)), streak }
    }
}

/// A stage as stored; the statements name the same numbers.
pub(in crate::store) const fn stage_code(stage: Stage) -> u8 {
    match stage {
        Stage::Gathering => 0,
        Stage::Watching => 1,
        Stage::Open => 2,
    }
}

fn stage_of(code: i16) -> Option<Stage> {
    [Stage::Gathering, Stage::Watching, Stage::Open].into_iter().nth(usize::try_from(code).ok()?)
}

/// The statuses of deliveries as stored: 0 held, 1 waiting and 2 being tried are `PENDING`.
pub(in crate::store) const fn status_codes(status: DeliveryStatus) -> &'static [u8] {
    match status {
        DeliveryStatus::Pending => &[0, 1, 2],
        DeliveryStatus::Delivered => &[3],
        DeliveryStatus::Failed => &[4],
        DeliveryStatus::Merged => &[5],
    }
}

fn status_of(code: i16) -> Option<DeliveryStatus> {
    let code = u8::try_from(code).ok()?;
    DeliveryStatus::ALL.iter().copied().find(|status| status_codes(*status).contains(&code))
}

/// Why a delivery or a try has failed. What only newer releases know is a failure all the same.
fn delivery_error<R: StoreRow>(row: &R) -> sqlx::Result<Option<DeliveryError>> {
    let name: Option<String> = row.read("error_code")?;
    Ok(name.map(|name| name.parse().unwrap_or(DeliveryError::Internal)))
}

impl<R: StoreRow> FromRow<'_, R> for Event {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.read("id")?,
            account: row.read("account_id")?,
            schedule: row.read("schedule_id")?,
            job: row.read("job_id")?,
            kind: row.read("type")?,
            at: row.read("at")?,
            host: row.read("host_key")?,
            failures: number::<i32, _>(row, "failures")?,
            wanted: row.read("wanted")?,
            schedule_name: row.read("schedule_name")?,
        })
    }
}

/// A channel that was locked for planning.
pub(in crate::store) struct ChannelLock {
    pub(in crate::store) id: ChannelId,
    pub(in crate::store) verified: bool,
    pub(in crate::store) channel: PlannedChannel,
}

impl<R: StoreRow> FromRow<'_, R> for ChannelLock {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let digest: Option<_> = row.read("digest_id")?;
        let flow = ChannelFlow {
            window_began: row.read("window_began")?,
            sent: number::<i32, _>(row, "window_sent")?,
            has_digest: digest.is_some(),
        };
        let channel = PlannedChannel {
            paused_until: row.read("paused_until")?,
            flow,
            digest,
            changed: false,
        };
        Ok(Self { id: row.read("id")?, verified: row.read("verified")?, channel })
    }
}

impl<R: StoreRow> FromRow<'_, R> for PlannedIncident {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let stage = stage_of(row.read("stage")?).ok_or_else(|| unfit("stage", "unknown"))?;
        let state = IncidentState {
            stage,
            gather_until: row.read("gather_until")?,
            due_at: row.read("due_at")?,
            since: row.read("since")?,
            opened_at: row.read("opened_at")?,
            last_failure_at: row.read("last_failure_at")?,
            last_recovery_at: row.read("last_recovery_at")?,
            schedules: number::<i32, _>(row, "schedules")?,
            failing: number::<i32, _>(row, "failing")?,
            gathered: number::<i32, _>(row, "gathered")?,
            failures: number::<i32, _>(row, "failures")?,
        };
        let names: String = row.read("names")?;
        Ok(Self {
            id: row.read("id")?,
            account: row.read("account_id")?,
            channel: row.read("channel_id")?,
            host: row.read("host_key")?,
            state,
            opening: row.read("opening_id")?,
            job: row.read("job_id")?,
            names: serde_json::from_str(&names).map_err(|_| unfit("names", "not a list"))?,
            changed: false,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for Delivery {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let code: i16 = row.read("status")?;
        let status = status_of(code).ok_or_else(|| unfit("status", "unknown"))?;
        // While a try is under way, `wake_at` is the end of its claim.
        let next_try_at = if code == 1 { row.read("wake_at")? } else { None };
        Ok(Self {
            id: row.read("id")?,
            event: row.read("event_id")?,
            kind: row.read("type")?,
            channel: row.read("channel_id")?,
            channel_type: row.read("channel_type")?,
            channel_label: row.read("channel_label")?,
            schedule: row.read("schedule_id")?,
            job: row.read("job_id")?,
            status,
            merged_into: row.read("merged_into")?,
            tries_made: number::<i16, _>(row, "tries")?,
            next_try_at,
            completed_at: row.read("completed_at")?,
            error_code: delivery_error(row)?,
            error_message: row.read("error_message")?,
            status_code: some_number::<i32, _>(row, "status_code")?,
            at: row.read("at")?,
            created_at: row.read("created_at")?,
            tries: Vec::new(),
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for DeliveryTry {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            number: number::<i16, _>(row, "number")?,
            started_at: row.read("started_at")?,
            completed_at: row.read("completed_at")?,
            status_code: some_number::<i32, _>(row, "status_code")?,
            response: row.read("response")?,
            error_code: delivery_error(row)?,
            error_message: row.read("error_message")?,
        })
    }
}

/// A try, and the delivery that it is of.
pub(in crate::store) struct TryOf {
    pub(in crate::store) delivery: DeliveryId,
    pub(in crate::store) one: DeliveryTry,
}

impl<R: StoreRow> FromRow<'_, R> for TryOf {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self { delivery: row.read("delivery_id")?, one: DeliveryTry::from_row(row)? })
    }
}
