//! Alerts: the outbox of events, their deliveries, and the tries of each.
//!
//! The transaction that ends a job writes its event (`commit`). [`AlertStore::relay`] turns events into
//! deliveries and takes them out of the outbox, in one transaction. A delivery is claimed like a job:
//! by a conditional update that records the try before anything is sent, so that any replica delivers
//! and one that dies loses nothing (ALERT-1).

use std::time::Duration;

use super::alert_claims::{ClaimedDeliveries, DeliveryClaim, TryEnd};
use super::{Result, Write};
use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, JobId, ScheduleId, Timestamp};
use crate::runtime::measured;

/// What there is to do for a notifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertWork {
    /// Events to be relayed, or incidents to be looked at.
    pub relay: bool,
    /// Deliveries whose try is due.
    pub deliver: bool,
    /// When an incident or a delivery is due next, if nothing happens before.
    pub next: Option<Timestamp>,
    /// Deliveries that are not final, counted to [`WAITING_COUNTED`].
    pub waiting: u64,
    /// When the oldest event, or delivery that is due, should have been told.
    pub oldest: Option<Timestamp>,
}

/// Where counting deliveries that wait stops.
pub const WAITING_COUNTED: u32 = 10_000;

/// What a pass of relaying has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Events taken out of the outbox.
    pub events: u64,
    /// Deliveries that are to be sent.
    pub planned: u64,
    /// Alerts that were merged into a digest or an incident.
    pub merged: u64,
    /// Alerts that no channel takes: recorded as failed.
    pub undeliverable: u64,
    /// Incidents opened.
    pub opened: u64,
    /// Incidents closed.
    pub closed: u64,
}

/// A delivery as its account sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event's id: receivers recognize duplicates by it.
    pub event: EventId,
    /// What it tells.
    pub kind: AlertKind,
    /// The channel; absent if the schedule had none that could be told.
    pub channel: Option<ChannelId>,
    /// How the channel delivers; absent if it was deleted.
    pub channel_type: Option<ChannelType>,
    /// The channel's label; absent if it was deleted.
    pub channel_label: Option<String>,
    /// The schedule, if it is about one.
    pub schedule: Option<ScheduleId>,
    /// The job, if it is about one.
    pub job: Option<JobId>,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// The delivery that tells of it, if it was merged.
    pub merged_into: Option<DeliveryId>,
    /// Tries that have begun.
    pub tries_made: u8,
    /// When the next try is due.
    pub next_try_at: Option<Timestamp>,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// Why it, or its last try, failed.
    pub error_code: Option<DeliveryError>,
    /// The same for people.
    pub error_message: Option<String>,
    /// The status code of the last answer.
    pub status_code: Option<u16>,
    /// When the event happened.
    pub at: Timestamp,
    /// When it was planned.
    pub created_at: Timestamp,
    /// Its tries, in order.
    pub tries: Vec<DeliveryTry>,
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTry {
    /// 1 for the first.
    pub number: u8,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// The status code of the provider's answer.
    pub status_code: Option<u16>,
    /// An excerpt of the provider's answer.
    pub response: Option<String>,
    /// Why it failed; absent if it succeeded.
    pub error_code: Option<DeliveryError>,
    /// The same for people.
    pub error_message: Option<String>,
}

/// Which deliveries to list: newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Only to this channel.
    pub channel: Option<ChannelId>,
    /// Only of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only those that stand so.
    pub status: Option<DeliveryStatus>,
    /// Only after this one in the order; then `offset` is 0.
    pub after: Option<DeliveryId>,
    /// How many to pass over first.
    pub offset: u64,
    /// How many at most.
    pub limit: u32,
}

/// Some of the deliveries that a query asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPage {
    /// Newest first.
    pub deliveries: Vec<Delivery>,
    /// How many the filters let through, counted to 10,000.
    pub total: u64,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

/// What became of a wish to deliver again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redelivered {
    /// It is tried again, up to five times.
    Done,
    /// The account has no such delivery.
    NotFound,
    /// It has not failed.
    NotFailed,
    /// Its channel was deleted, or it never had one.
    NoChannel,
    /// Its channel is not verified.
    Unverified,
}

/// How long final deliveries and their tries are kept.
pub const DELIVERIES_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Events, deliveries and their tries. The notifier's batches work over all accounts.
    pub trait AlertStore: Send + Sync {
        /// What there is to do at `now`. Reads only.
        async fn alert_work(&self, now: Timestamp) -> Result<AlertWork>;

        /// Plans the deliveries of at most `limit` events, oldest first, and judges the incidents that are
        /// due. One replica does it at a time; another one finds nothing to do.
        async fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> Result<Relayed>;

        /// Claims deliveries whose try is due, or whose claim has ended without one: a try is recorded as
        /// lost then. What cannot be tried, because its channel is gone or not verified, fails.
        async fn claim_deliveries(&self, claim: &DeliveryClaim) -> Result<ClaimedDeliveries>;

        /// Lets all claims end at `now`: for a process that is alone with its store and has just begun.
        async fn release_deliveries(&self, now: Timestamp) -> Result<u64>;

        /// Records ends of tries in one transaction. Returns, for each, whether it took effect.
        async fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Result<Vec<bool>>;

        /// Some of the deliveries of an account, with their tries.
        async fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> Result<DeliveryPage>;

        /// One delivery, with its tries.
        async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<Option<Delivery>>;

        /// Has a failed delivery tried again, at once.
        async fn redeliver(&self, write: &Write, id: DeliveryId) -> Result<Redelivered>;

        /// Removes final deliveries that were planned before `before`, with their tries, at most `limit`.
        async fn prune_deliveries(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}
