//! Alerts: the outbox of events, their deliveries, and the tries of each delivery.
//!
//! The transaction that ends a job writes its event (`commit`). [`AlertStore::relay`] turns events
//! into deliveries and removes them from the outbox, in one transaction. A delivery is claimed like
//! a job: a conditional update records the try before anything is sent. So any replica can deliver,
//! and no alert is lost if a replica dies (ALERT-1).

use std::time::Duration;

use super::alert_claims::{ClaimedDeliveries, DeliveryClaim, TryEnd};
use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, JobId, ScheduleId, Timestamp};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// The work that waits for a notifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertWork {
    /// `true` if there are events to relay or incidents to judge.
    pub relay: bool,
    /// `true` if there are deliveries whose try is due or whose claim has ended.
    pub deliver: bool,
    /// The next time at which an incident or a delivery is due, unless something happens before.
    pub next: Option<Timestamp>,
    /// The number of deliveries that are not final, counted up to [`WAITING_COUNTED`].
    pub waiting: u64,
    /// The time of the oldest event in the outbox, or the due time of the oldest delivery that is
    /// due, whichever is earlier.
    pub oldest: Option<Timestamp>,
}

/// The maximum to which waiting deliveries are counted.
pub const WAITING_COUNTED: u32 = 10_000;

/// The results of one pass of relaying, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayResult {
    /// Events that were removed from the outbox.
    pub events: u64,
    /// Deliveries that will be sent.
    pub planned: u64,
    /// Alerts that were merged into a digest or an incident.
    pub merged: u64,
    /// Alerts without a channel, which were recorded as failed.
    pub undeliverable: u64,
    /// Incidents opened.
    pub opened: u64,
    /// Incidents closed.
    pub closed: u64,
}

/// A delivery from the view of its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The id of the event, by which receivers recognize duplicates.
    pub event: EventId,
    /// The kind of the alert.
    pub kind: AlertKind,
    /// The channel; absent if the schedule had no channel to alert.
    pub channel: Option<ChannelId>,
    /// The type of the channel; absent if the channel was deleted.
    pub channel_type: Option<ChannelType>,
    /// The label of the channel; absent if the channel was deleted.
    pub channel_label: Option<String>,
    /// The schedule, if the alert is about one.
    pub schedule: Option<ScheduleId>,
    /// The job, if the alert is about one.
    pub job: Option<JobId>,
    /// The status of the delivery.
    pub status: DeliveryStatus,
    /// The delivery that it was merged into, if it was merged.
    pub merged_into: Option<DeliveryId>,
    /// The number of tries that have begun.
    pub tries_made: u8,
    /// The time of the next try.
    pub next_try_at: Option<Timestamp>,
    /// The time at which the delivery became final.
    pub completed_at: Option<Timestamp>,
    /// The reason for the failure of the delivery or of its last try.
    pub error_code: Option<DeliveryError>,
    /// The reason in words.
    pub error_message: Option<String>,
    /// The status code of the last response.
    pub status_code: Option<u16>,
    /// The time of the event.
    pub at: Timestamp,
    /// The time at which the delivery was planned.
    pub created_at: Timestamp,
    /// The tries, in order.
    pub tries: Vec<DeliveryTry>,
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTry {
    /// The number of the try, from 1.
    pub number: u8,
    /// The start of the try.
    pub started_at: Timestamp,
    /// The end of the try.
    pub completed_at: Timestamp,
    /// The status code of the provider's response.
    pub status_code: Option<u16>,
    /// An excerpt of the provider's response.
    pub response: Option<String>,
    /// The reason for the failure; absent if the try succeeded.
    pub error_code: Option<DeliveryError>,
    /// The reason in words.
    pub error_message: Option<String>,
}

/// The filters and the page of a list of deliveries, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Only deliveries to this channel.
    pub channel: Option<ChannelId>,
    /// Only deliveries about this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only deliveries with this status.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries after this one in the order of the list; then `offset` is 0.
    pub after: Option<DeliveryId>,
    /// The number of deliveries to skip.
    pub offset: u64,
    /// The maximum number of deliveries.
    pub limit: u32,
}

/// A page of a list of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// The number of deliveries that pass the filters, counted up to 10,000.
    pub total: u64,
    /// `true` if more deliveries follow.
    pub has_more: bool,
}

/// The result of a request to deliver again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redelivered {
    /// The delivery is tried again, up to five times.
    Done,
    /// The account has no such delivery.
    NotFound,
    /// The delivery has not failed.
    NotFailed,
    /// The channel was deleted, or the delivery never had one.
    NoChannel,
    /// The channel is not verified.
    Unverified,
}

/// The time for which final deliveries and their tries are kept.
pub const DELIVERIES_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Events, deliveries and their tries. The batches of the notifier span all accounts.
    pub trait AlertStore: Send + Sync {
        /// Returns the work that waits at `now`. Only reads.
        async fn alert_work(&self, now: Timestamp) -> Result<AlertWork>;

        /// Plans the deliveries of at most `limit` events, oldest first, and judges the incidents
        /// that are due. Only one replica relays at a time; meanwhile a call by another one does
        /// nothing.
        async fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> Result<RelayResult>;

        /// Claims deliveries whose try is due, or whose claim has ended without a result; the try
        /// of that claim is recorded as lost. A delivery whose channel is deleted or not verified
        /// fails.
        async fn claim_deliveries(&self, claim: &DeliveryClaim) -> Result<ClaimedDeliveries>;

        /// Ends all claims at `now`. Only for a process that is alone with its store and has just
        /// started.
        async fn release_deliveries(&self, now: Timestamp) -> Result<u64>;

        /// Records the ends of tries in one transaction. Returns, for each, `true` if it took
        /// effect.
        async fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Result<Vec<bool>>;

        /// Returns a page of an account's deliveries, with their tries.
        async fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> Result<DeliveryPage>;

        /// Returns one delivery, with its tries.
        async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<Option<Delivery>>;

        /// Makes a failed delivery due again, at once.
        async fn redeliver(&self, write: &WriteContext, id: DeliveryId) -> Result<Redelivered>;

        /// Deletes final deliveries that were planned before `before`, with their tries, at most
        /// `limit`.
        async fn prune_deliveries(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}
