//! The bodies of requests, with their OpenAPI schemas.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::Object;

use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::request_body::{Field, one_of};

/// A channel to be created. Fields that are not listed are ignored.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewChannel, examples(json!({
    "type": "slack",
    "label": "On call",
    "config": {
        "webhookUrl": "https://hooks.slack.com/services/T000/B000/secret",
    },
})))]
pub struct ChannelCreation {
    /// The settings of its deliveries.
    #[serde(rename = "type", default)]
    #[schema(required, schema_with = channel_type)]
    pub kind: Field<String>,
    /// A name for people.
    #[serde(default)]
    #[schema(required, value_type = String, min_length = 1, max_length = 100)]
    pub label: Field<String>,
    /// By type: email `{to}`, slack and discord `{webhookUrl}`, telegram `{botToken, chatId?}`,
    /// webhook `{url, secret?}`. No answer contains it.
    #[serde(default)]
    #[schema(required, value_type = Object)]
    pub config: Field<Map<String, Value>>,
}

/// Fields of a channel to be changed; the others stay as they are.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[schema(as = ChannelChange, examples(json!({ "label": "On call, nights" })))]
pub struct ChannelUpdate {
    /// Cannot be changed; the present type is accepted.
    #[serde(rename = "type", default)]
    #[schema(required = false, schema_with = channel_type)]
    pub kind: Field<String>,
    /// A name for people.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 100)]
    pub label: Field<String>,
    /// The whole configuration, as for creation. A webhook keeps its secret unless it is given. A
    /// configuration that differs from the present one has to be verified.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub config: Field<Map<String, Value>>,
}

/// A signing secret to be replaced.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(examples(json!({ "overlapSeconds": 3600 })))]
pub struct SecretRotation {
    /// The new secret, `whsec_` and base64; generated unless given.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub secret: Field<String>,
    /// The time for which the old secret signs beside the new one; 86400 unless given, clamped to 0
    /// to 604800.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub overlap_seconds: Field<i64>,
}

/// A schedule's notification preference. It replaces the present one as a whole.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewPreference, examples(json!({
    "notifyOn": "failure",
    "channelIds": ["ch_01HF7YAT000000000000000007"],
    "failureThreshold": 3,
    "notifyOnRecovery": true,
    "repeatEveryMinutes": 60,
})))]
pub struct PreferenceUpdate {
    /// The outcomes that raise alerts.
    #[serde(default)]
    #[schema(required, schema_with = notify_on)]
    pub notify_on: Field<String>,
    /// Verified channels, each counted once. At least one, unless `notifyOn` is `none`.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 10)]
    pub channel_ids: Field<Vec<String>>,
    /// Failures in a row before the first alert; 1 unless given, clamped to 1 to 1000.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub failure_threshold: Field<i64>,
    /// `true` if a success after an alert raises one, too; `false` unless given.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    pub notify_on_recovery: Field<bool>,
    /// While a schedule goes on failing, the minutes between alerts, clamped to 1 to 10080. Each
    /// failure raises one unless given.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub repeat_every_minutes: Field<i64>,
}

fn channel_type() -> Object {
    one_of(ChannelType::ALL.iter().map(|kind| kind.as_str()), false)
}

fn notify_on() -> Object {
    one_of(NotifyOn::ALL.iter().map(|notify_on| notify_on.as_str()), false)
}
