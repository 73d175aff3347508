//! The contract of the store: one file for each of its parts.

pub(super) mod accounts;
pub(super) mod alert_claims;
pub(super) mod alerts;
pub(super) mod audit;
pub(super) mod channels;
pub(super) mod claims;
pub(super) mod deletion;
pub(super) mod error;
pub(super) mod firing;
pub(super) mod hours;
pub(super) mod idempotency;
pub(super) mod identities;
pub(super) mod jobs;
pub(super) mod leadership;
pub(super) mod preferences;
pub(super) mod quotas;
pub(super) mod schedules;
pub(super) mod secrets;
pub(super) mod signing;
pub(super) mod upkeep;
pub(super) mod users;
