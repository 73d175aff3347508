//! The record of a notification preference in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::schemas;
use crate::domain::channel::Channel;
use crate::domain::{ChannelId, ScheduleId};
use crate::notifications::Preference;

/// A schedule's notification preference.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Preference)]
pub(super) struct PreferenceRecord {
    #[schema(value_type = String, examples("sch_01HF7YAT000000000000000007"))]
    schedule_id: ScheduleId,
    /// The outcomes that raise alerts.
    #[schema(schema_with = schemas::notify_on)]
    notify_on: &'static str,
    /// The attached channels that are verified.
    channels: Vec<AttachedRecord>,
    /// A sentence that explains why alerts do not reach some or all channels.
    #[schema(required)]
    warning: Option<String>,
    /// The number of consecutive failures before the first alert.
    #[schema(minimum = 1, maximum = 1000)]
    failure_threshold: u32,
    /// `true` if a success after an alert raises an alert, too.
    notify_on_recovery: bool,
    /// The minutes between alerts while the schedule keeps failing; with `null`, each failure
    /// raises an alert.
    #[schema(required, minimum = 1, maximum = 10080)]
    repeat_every_minutes: Option<u32>,
}

impl From<Preference> for PreferenceRecord {
    fn from(preference: Preference) -> Self {
        let Preference { schedule, policy, channels, warning } = preference;
        Self {
            schedule_id: schedule,
            notify_on: policy.notify_on.as_str(),
            channels: channels.into_iter().map(AttachedRecord::from).collect(),
            warning,
            failure_threshold: policy.failure_threshold,
            notify_on_recovery: policy.notify_on_recovery,
            repeat_every_minutes: policy.repeat_every_minutes,
        }
    }
}

/// A channel of a preference.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AttachedChannel)]
pub(super) struct AttachedRecord {
    #[schema(value_type = String)]
    channel_id: ChannelId,
    #[serde(rename = "type")]
    #[schema(schema_with = schemas::channel_type)]
    kind: &'static str,
    label: String,
    verified: bool,
}

impl From<Channel> for AttachedRecord {
    fn from(channel: Channel) -> Self {
        let Channel { id, kind, label, verified, .. } = channel;
        Self { channel_id: id, kind: kind.as_str(), label, verified }
    }
}
