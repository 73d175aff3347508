//! Alerts: their content, when they are sent, and how often they are tried.
//!
//! A job that ends may raise an event (`policy`). The notifier turns an event into one delivery for
//! each channel of the schedule, unless the event belongs to an incident or a digest (`grouping`).
//! A delivery is tried up to five times (`delivery`). `content` builds the content of a delivery.

pub mod content;
pub mod delivery;
pub mod grouping;
mod mask;
pub mod policy;

pub use mask::Mask;
pub(crate) use mask::{masked_header, masked_url};

use super::names::names;

names! {
    /// The kind of an alert.
    AlertKind {
        /// A job has failed, after its last attempt.
        JobFailed = "job.failed",
        /// A job has succeeded.
        JobSucceeded = "job.succeeded",
        /// A job has succeeded after failures that raised alerts.
        ScheduleRecovered = "schedule.recovered",
        /// Many schedules fail against one host.
        IncidentOpened = "incident.opened",
        /// The schedules of an incident have recovered.
        IncidentClosed = "incident.closed",
        /// More alerts than a channel takes in a minute.
        Digest = "digest",
        /// A channel is being verified.
        ChannelTest = "channel.test",
    }
}
