//! Claims of deliveries, their results, and the ends of the tries that they allow.

use super::claims::ExecutorId;
use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{DigestAlert, IncidentAlert, JobAlert};
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::channel::ChannelConfig;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, Timestamp};

/// A request to claim deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryClaim {
    /// The notifier that claims.
    pub notifier: ExecutorId,
    /// The present time, at which the tries begin.
    pub now: Timestamp,
    /// The end of the claim. It is never renewed.
    pub until: Timestamp,
    /// The maximum number of deliveries.
    pub limit: u32,
    /// The maximum number of deliveries to one channel.
    pub per_channel: u32,
    /// The channels that have as many deliveries under way as they may.
    pub busy: Vec<ChannelId>,
    /// The maximum number of deliveries of one account.
    pub per_account: u32,
    /// The accounts that have as many deliveries under way as they may.
    pub busy_accounts: Vec<AccountId>,
    /// The maximum number of deliveries by type of channel. A type that is not listed has no limit.
    pub per_type: Vec<(ChannelType, u32)>,
}

/// A delivery whose next try only this notifier may make until the claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The event that it reports.
    pub event: EventId,
    /// The account.
    pub account: AccountId,
    /// The channel that it is sent to.
    pub channel: ChannelId,
    /// The type of the channel.
    pub channel_type: ChannelType,
    /// The revision of the channel's configuration.
    pub revision: i64,
    /// The channel's configuration; absent if it cannot be decrypted.
    pub config: Option<ChannelConfig>,
    /// The kind of the alert.
    pub kind: AlertKind,
    /// The time of the event.
    pub at: Timestamp,
    /// The number of the try, from 1.
    pub attempt: u8,
    /// The number of the try in the current round of tries, from 1.
    pub attempt_of_round: u8,
    /// The start of the current round of tries.
    pub round_began: Timestamp,
    /// The content of the alert.
    pub content: DeliveryContent,
}

/// The content of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryContent {
    /// The end of a job.
    Job(Box<JobAlert>),
    /// An incident, described with the job of its last event.
    Incident(IncidentAlert),
    /// A digest.
    Digest(DigestAlert),
    /// The data of the alert, such as its job, no longer exists or cannot be read.
    Gone,
}

/// The result of claiming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// The deliveries to try.
    pub taken: Vec<ClaimedDelivery>,
    /// The number of deliveries that failed without a try, because their channel was deleted or is
    /// not verified, or because the notifier was lost during their last try.
    pub undeliverable: u64,
}

/// The result of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    /// The channel accepted the alert.
    Delivered,
    /// The alert was not delivered.
    Failed {
        /// The code of the failure.
        code: DeliveryError,
        /// The reason in words, without secrets.
        message: String,
        /// The time of the next try; absent if there is none.
        retry_at: Option<Timestamp>,
        /// The end of the pause that the channel asked for; no alert is sent to it before.
        paused_until: Option<Timestamp>,
        /// `true` if the channel loses `verified`.
        gone: bool,
    },
}

/// The end of a try. It takes effect only while this claim of the delivery holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryEnd {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The account.
    pub account: AccountId,
    /// The channel.
    pub channel: ChannelId,
    /// The revision of the configuration that the try used. A pause or a loss of `verified` applies
    /// only if the channel still has this revision.
    pub revision: i64,
    /// The number of the try.
    pub attempt: u8,
    /// The notifier that holds the claim.
    pub notifier: ExecutorId,
    /// The start of the try.
    pub started_at: Timestamp,
    /// The end of the try.
    pub completed_at: Timestamp,
    /// The status code of the provider's response.
    pub status_code: Option<u16>,
    /// An excerpt of the provider's response.
    pub response: Option<String>,
    /// The result of the try.
    pub outcome: TryOutcome,
}
