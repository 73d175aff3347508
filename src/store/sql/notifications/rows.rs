//! Reads the rows of alerts of either database.

use super::items::{OutboxEvent, PlannedChannel, PlannedIncident};
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::alert::grouping::{ChannelFlow, IncidentStage, IncidentState};
use crate::domain::alert::policy::{AlertPolicy, Streak};
use crate::domain::shard::ShardId;
use crate::domain::{ChannelId, DeliveryId, ScheduleId, Timestamp};
use crate::store::contract::preferences::policy_of;
use crate::store::sql::encoding::rows::{StoreRow, read_rows, unfit};
use crate::store::{Delivery, DeliveryTry};

/// The columns of a schedule's state that concern alerts: the three of the policy, the number of
/// consecutive failures before the batch, and the time at which such a failure was last reported.
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
    /// Reads the columns of a schedule.
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

/// Returns the stored number of a stage. The statements contain the same numbers.
pub(in crate::store) const fn stage_code(stage: IncidentStage) -> u8 {
    match stage {
        IncidentStage::Gathering => 0,
        IncidentStage::Watching => 1,
        IncidentStage::Open => 2,
    }
}

fn stage_of(code: i16) -> Option<IncidentStage> {
    [IncidentStage::Gathering, IncidentStage::Watching, IncidentStage::Open]
        .into_iter()
        .nth(usize::try_from(code).ok()?)
}

/// Returns the stored numbers of a status. Three of them are `PENDING`: 0 (held), 1 (waiting for a
/// try) and 2 (being tried).
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

/// A channel that was locked for planning.
pub(in crate::store) struct ChannelLock {
    pub(in crate::store) id: ChannelId,
    pub(in crate::store) verified: bool,
    pub(in crate::store) channel: PlannedChannel,
}

/// A try, and the id of its delivery.
pub(in crate::store) struct TryOf {
    pub(in crate::store) delivery: DeliveryId,
    pub(in crate::store) one: DeliveryTry,
}

read_rows! {
    ChannelFlow { window_began, sent: "window_sent" as i32, has_digest by has_digest }
    ChannelLock { id, verified, channel: _ }
    Delivery {
        id, event: "event_id", kind: "type", channel: "channel_id", channel_type, channel_label,
        schedule: "schedule_id", job: "job_id", status by delivery_status, merged_into,
        tries_made: "tries" as i16, next_try_at by next_try_at, completed_at,
        error_code by delivery_error, error_message, status_code as Option<i32>, at, created_at,
        tries = Vec::new(),
    }
    DeliveryTry {
        number as i16, started_at, completed_at, status_code as Option<i32>, response,
        error_code by delivery_error, error_message,
    }
    OutboxEvent {
        id, account: "account_id", schedule: "schedule_id", job: "job_id", kind: "type", at,
        host: "host_key", failures as i32, wanted, schedule_name,
    }
    IncidentState {
        stage by incident_stage, gather_until, due_at, since, opened_at, last_failure_at,
        last_recovery_at, schedules as i32, failing as i32, gathered as i32, failures as i32,
    }
    PlannedChannel { paused_until, flow: _, digest: "digest_id", changed = false }
    PlannedIncident {
        id, account: "account_id", channel: "channel_id", host: "host_key", state: _,
        opening: "opening_id", job: "job_id", names by incident_names, changed = false,
    }
    TryOf { delivery: "delivery_id", one: _ }
}

fn has_digest(row: &impl StoreRow) -> sqlx::Result<bool> {
    row.read("digest_id").map(|digest: Option<DeliveryId>| digest.is_some())
}

fn delivery_status(row: &impl StoreRow) -> sqlx::Result<DeliveryStatus> {
    status_of(row.read("status")?).ok_or_else(|| unfit("status", "unknown"))
}

/// Reads the time of the next try of a delivery that waits for it. While a try is under way,
/// `wake_at` is the end of its claim instead.
fn next_try_at(row: &impl StoreRow) -> sqlx::Result<Option<Timestamp>> {
    let code: i16 = row.read("status")?;
    if code == 1 { row.read("wake_at") } else { Ok(None) }
}

/// Reads the reason why a delivery or a try has failed. A code that only newer releases know
/// becomes `Internal`, because it is a failure as well.
fn delivery_error(row: &impl StoreRow) -> sqlx::Result<Option<DeliveryError>> {
    let name: Option<String> = row.read("error_code")?;
    Ok(name.map(|name| name.parse().unwrap_or(DeliveryError::Internal)))
}

fn incident_stage(row: &impl StoreRow) -> sqlx::Result<IncidentStage> {
    stage_of(row.read("stage")?).ok_or_else(|| unfit("stage", "unknown"))
}

fn incident_names(row: &impl StoreRow) -> sqlx::Result<Vec<String>> {
    let names: String = row.read("names")?;
    serde_json::from_str(&names).map_err(|_| unfit("names", "not a list"))
}
