//! The records of deliveries and their tries in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::schemas;
use crate::domain::{ChannelId, DeliveryId, EventId, JobId, ScheduleId, Timestamp};
use crate::store::{Delivery, DeliveryTry};

/// The delivery of one alert to one channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub(in crate::api) struct DeliveryRecord {
    #[schema(value_type = String, examples("dlv_01HF7YAT000000000000000007"))]
    id: DeliveryId,
    /// The id of the event. All deliveries of the event have it, and receivers get it.
    #[schema(value_type = String, examples("evt_01HF7YAT000000000000000007"))]
    event_id: EventId,
    /// The kind of alert.
    #[serde(rename = "type")]
    #[schema(schema_with = schemas::alert_kind)]
    kind: &'static str,
    /// `null` if the schedule had no verified channel.
    #[schema(required, value_type = Option<String>)]
    channel_id: Option<ChannelId>,
    /// Null if the channel was deleted.
    #[schema(required, schema_with = schemas::channel_type_or_null)]
    channel_type: Option<&'static str>,
    /// Null if the channel was deleted.
    #[schema(required)]
    channel_label: Option<String>,
    /// `null` if the alert is about several schedules.
    #[schema(required, value_type = Option<String>)]
    schedule_id: Option<ScheduleId>,
    /// `null` if the alert is about several jobs.
    #[schema(required, value_type = Option<String>)]
    job_id: Option<JobId>,
    #[schema(schema_with = schemas::delivery_status)]
    status: &'static str,
    /// The delivery that contains this alert, if it was merged into a digest or an incident.
    #[schema(required, value_type = Option<String>)]
    merged_into: Option<DeliveryId>,
    /// The number of tries that have begun.
    attempts: u8,
    #[schema(required, schema_with = schemas::instant_or_null)]
    next_attempt_at_utc: Option<Timestamp>,
    #[schema(required, schema_with = schemas::delivery_error_or_null)]
    error_code: Option<&'static str>,
    #[schema(required)]
    error_message: Option<String>,
    /// The status code of the last answer.
    #[schema(required)]
    status_code: Option<u16>,
    /// The time of the event.
    #[schema(schema_with = schemas::instant)]
    occurred_at_utc: Timestamp,
    #[schema(schema_with = schemas::instant)]
    created_at: Timestamp,
    #[schema(required, schema_with = schemas::instant_or_null)]
    completed_at_utc: Option<Timestamp>,
    /// The finished tries, in order.
    tries: Vec<TryRecord>,
}

impl From<Delivery> for DeliveryRecord {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            event_id: delivery.event,
            kind: delivery.kind.as_str(),
            channel_id: delivery.channel,
            channel_type: delivery.channel_type.map(|kind| kind.as_str()),
            channel_label: delivery.channel_label,
            schedule_id: delivery.schedule,
            job_id: delivery.job,
            status: delivery.status.as_str(),
            merged_into: delivery.merged_into,
            attempts: delivery.tries_made,
            next_attempt_at_utc: delivery.next_try_at,
            error_code: delivery.error_code.map(|code| code.as_str()),
            error_message: delivery.error_message,
            status_code: delivery.status_code,
            occurred_at_utc: delivery.at,
            created_at: delivery.created_at,
            completed_at_utc: delivery.completed_at,
            tries: delivery.tries.into_iter().map(TryRecord::from).collect(),
        }
    }
}

/// One try of a delivery.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryTry)]
pub(super) struct TryRecord {
    /// The number of the try, from 1.
    number: u8,
    #[schema(schema_with = schemas::instant)]
    started_at_utc: Timestamp,
    #[schema(schema_with = schemas::instant)]
    completed_at_utc: Timestamp,
    #[schema(required)]
    status_code: Option<u16>,
    #[schema(required, schema_with = schemas::delivery_error_or_null)]
    error_code: Option<&'static str>,
    #[schema(required)]
    error_message: Option<String>,
    /// The start of the provider's answer.
    #[schema(required)]
    response: Option<String>,
}

impl From<DeliveryTry> for TryRecord {
    fn from(made: DeliveryTry) -> Self {
        Self {
            number: made.number,
            started_at_utc: made.started_at,
            completed_at_utc: made.completed_at,
            status_code: made.status_code,
            error_code: made.error_code.map(|code| code.as_str()),
            error_message: made.error_message,
            response: made.response,
        }
    }
}
