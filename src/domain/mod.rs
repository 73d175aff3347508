//! The rules of the service, pure: no input or output, no async, no clock, no randomness.
//!
//! Time and randomness are arguments here, so every rule can be tested at any instant. The other
//! modules read some state, ask this module for a decision, and write the decision down.

pub mod alert;
pub mod audit;
pub mod call;
pub mod certificate;
pub mod channel;
pub mod cron;
pub mod endpoint;
pub mod field_errors;
pub mod finding;
pub mod firing;
pub mod headers;
pub mod hours;
pub mod id;
pub mod job;
pub mod key;
mod names;
pub mod outcome;
pub mod plan;
mod request;
pub mod request_body;
pub mod retry;
pub mod schedule;
pub mod secret_key;
pub mod shard;
pub mod shard_assignment;
pub mod signing;
pub mod status_codes;
pub mod ticket;
pub mod time;
pub mod token;
pub mod user;

pub use id::{
    AccountId, AuditId, ChannelId, DeliveryId, EventId, IdentityId, IncidentId, InvitationId,
    JobId, KeyId, MembershipId, ResetId, ScheduleId, SessionId, SigningSecretId, TestRequestId,
    UserId, VersionId,
};
pub use names::UnknownName;
pub use time::Timestamp;
