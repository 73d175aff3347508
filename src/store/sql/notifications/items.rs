//! The parts of an alert plan: events, channels and incidents as they are read, and deliveries as
//! they are stored.

use crate::domain::alert::AlertKind;
use crate::domain::alert::grouping::{ChannelFlow, IncidentState};
use crate::domain::ticket::HostKey;
use crate::domain::{
    AccountId, ChannelId, DeliveryId, EventId, IncidentId, JobId, ScheduleId, Timestamp,
};

/// An event of the outbox.
#[derive(Clone, Debug)]
pub(in crate::store) struct OutboxEvent {
    pub(in crate::store) id: EventId,
    pub(in crate::store) account: AccountId,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) job: JobId,
    pub(in crate::store) kind: AlertKind,
    pub(in crate::store) at: Timestamp,
    pub(in crate::store) host: HostKey,
    pub(in crate::store) failures: u32,
    pub(in crate::store) wanted: bool,
    pub(in crate::store) schedule_name: String,
}

/// A verified channel, locked for planning.
#[derive(Clone, Debug)]
pub(in crate::store) struct PlannedChannel {
    pub(in crate::store) paused_until: Timestamp,
    pub(in crate::store) flow: ChannelFlow,
    pub(in crate::store) digest: Option<DeliveryId>,
    pub(in crate::store) changed: bool,
}

/// An incident, with the changes that planning makes to it.
#[derive(Clone, Debug)]
pub(in crate::store) struct PlannedIncident {
    pub(in crate::store) id: IncidentId,
    pub(in crate::store) account: AccountId,
    pub(in crate::store) channel: ChannelId,
    pub(in crate::store) host: HostKey,
    pub(in crate::store) state: IncidentState,
    pub(in crate::store) opening: Option<DeliveryId>,
    pub(in crate::store) job: JobId,
    pub(in crate::store) names: Vec<String>,
    pub(in crate::store) changed: bool,
}

/// The state of a planned delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum DeliveryState {
    /// It waits until its incident is judged.
    Held(IncidentId),
    /// It is sent at this time.
    Due(Timestamp),
    /// Another delivery reports its event.
    Merged(DeliveryId),
    /// There is no channel to send it to.
    NoChannel,
}

/// A delivery to be stored.
#[derive(Clone, Debug)]
pub(in crate::store) struct PlannedDelivery {
    pub(in crate::store) id: DeliveryId,
    pub(in crate::store) account: AccountId,
    pub(in crate::store) channel: Option<ChannelId>,
    pub(in crate::store) event: EventId,
    pub(in crate::store) schedule: Option<ScheduleId>,
    pub(in crate::store) job: Option<JobId>,
    pub(in crate::store) incident: Option<IncidentId>,
    pub(in crate::store) kind: AlertKind,
    pub(in crate::store) at: Timestamp,
    pub(in crate::store) failures: u32,
    pub(in crate::store) schedule_name: Option<String>,
    pub(in crate::store) content: Option<String>,
    pub(in crate::store) state: DeliveryState,
}
