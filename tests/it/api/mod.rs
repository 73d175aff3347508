//! The REST API against its contract, on the store of one machine.

mod audit;
pub mod away_queue;
mod body_limits;
mod bulk;
mod channels;
mod cookies;
mod creation;
mod deliveries;
mod envelope;
mod faults;
pub mod harness;
mod hostile;
mod idempotency;
mod jobs;
mod keys;
mod known;
mod lifecycle;
mod lists;
mod plans;
mod preferences;
mod rate_limits;
mod reference;
mod rotation;
mod tenants;
mod unsubscribe;
mod updates;
