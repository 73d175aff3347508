//! The record of a notification channel in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::schemas;
use crate::channels::GeneratedSecret;
use crate::domain::channel::Channel;
use crate::domain::{ChannelId, Timestamp};
use crate::notifications::ChannelWithSecret;

/// A notification channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Channel)]
pub(in crate::api) struct ChannelRecord {
    #[schema(value_type = String, examples("ch_01HF7YAT000000000000000007"))]
    id: ChannelId,
    #[serde(rename = "type")]
    #[schema(schema_with = schemas::channel_type)]
    kind: &'static str,
    /// The display name.
    #[schema(examples("On call"))]
    label: String,
    /// `true` if a test notification has arrived with the current configuration.
    verified: bool,
    #[schema(schema_with = schemas::instant)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::instant)]
    updated_at: Timestamp,
}

impl From<Channel> for ChannelRecord {
    fn from(channel: Channel) -> Self {
        let Channel { id, kind, label, verified, created_at, updated_at } = channel;
        Self { id, kind: kind.as_str(), label, verified, created_at, updated_at }
    }
}

/// A notification channel, and the secret that was generated for it.
#[derive(Serialize, ToSchema)]
#[schema(as = ChannelWithSecret)]
pub(super) struct SecretRecord {
    #[serde(flatten)]
    channel: ChannelRecord,
    /// The generated signing secret of a webhook; shown in this answer and never again. Absent if
    /// none was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    secret: Option<SecretText>,
}

/// A secret whose memory is overwritten when it is dropped.
struct SecretText(GeneratedSecret);

impl Serialize for SecretText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.reveal())
    }
}

impl From<ChannelWithSecret> for SecretRecord {
    fn from(ChannelWithSecret { channel, secret }: ChannelWithSecret) -> Self {
        Self { channel: channel.into(), secret: secret.map(SecretText) }
    }
}
