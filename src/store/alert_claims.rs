//! Claims of deliveries, what they bring, and the ends of the tries that they allow.

use super::claims::ExecutorId;
use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{DigestAlert, IncidentAlert, JobAlert};
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::channel::ChannelConfig;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, Timestamp};

/// A wish to deliver.
#[derive(Clone, Debug)]
pub struct DeliveryClaim {
    /// Who claims.
    pub notifier: ExecutorId,
    /// The present instant: when the tries begin.
    pub now: Timestamp,
    /// When the claim ends; nobody renews it.
    pub until: Timestamp,
    /// How many deliveries at most.
    pub limit: u32,
    /// How many of one channel at most.
    pub per_channel: u32,
    /// The channels that have enough under way.
    pub busy: Vec<ChannelId>,
    /// How many of one account at most.
    pub per_account: u32,
    /// The accounts that have enough under way.
    pub busy_accounts: Vec<AccountId>,
    /// How many of a type of channel at most; without a limit if it is not named.
    pub per_type: Vec<(ChannelType, u32)>,
}

/// A delivery whose next try this notifier may make, alone, until the claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event that it tells of.
    pub event: EventId,
    /// Whose it is.
    pub account: AccountId,
    /// Where it goes.
    pub channel: ChannelId,
    /// How.
    pub channel_type: ChannelType,
    /// Which configuration of the channel this is.
    pub revision: i64,
    /// The channel's configuration; absent if it cannot be decrypted.
    pub config: Option<ChannelConfig>,
    /// What it tells.
    pub kind: AlertKind,
    /// When the event happened.
    pub at: Timestamp,
    /// The number of the try, from 1.
    pub attempt: u8,
    /// The number of the try among the present five.
    pub attempt_of_round: u8,
    /// When the present five tries began.
    pub round_began: Timestamp,
    /// What it says.
    pub content: DeliveryContent,
}

/// What a delivery says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryContent {
    /// A job's end.
    Job(Box<JobAlert>),
    /// An incident. `schedule` and `job` are the ones that it began or ended with.
    Incident(IncidentAlert),
    /// A digest.
    Digest(DigestAlert),
    /// The job, or what was kept of it, is not there any more.
    Gone,
}

/// What claiming has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// Deliveries to try.
    pub taken: Vec<ClaimedDelivery>,
    /// Deliveries that failed without a try: their channel was deleted or is not verified.
    pub undeliverable: u64,
}

/// How a try has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    /// The channel has taken it.
    Delivered,
    /// It has not.
    Failed {
        /// Why.
        code: DeliveryError,
        /// The same for people; no secret in it.
        message: String,
        /// When the next try is due; absent if there is none.
        retry_at: Option<Timestamp>,
        /// Until when the channel wants no alerts at all.
        paused_until: Option<Timestamp>,
        /// Whether the channel loses `verified`.
        gone: bool,
    },
}

/// The end of a try. It takes effect only while the delivery is being tried under this claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryEnd {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Whose it is.
    pub account: AccountId,
    /// The channel.
    pub channel: ChannelId,
    /// The configuration that it was made with: what is said of another one is not true of this.
    pub revision: i64,
    /// The try that ended.
    pub attempt: u8,
    /// Whose claim it ran under.
    pub notifier: ExecutorId,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// The status code of the provider's answer.
    pub status_code: Option<u16>,
    /// An excerpt of the provider's answer.
    pub response: Option<String>,
    /// How it ended.
    pub outcome: TryOutcome,
}
