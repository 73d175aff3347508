//! Capacity: limits the attempts under way in total, per account and per host.

pub(super) mod account_concurrency;
pub(super) mod slot_queue;
pub(super) mod slots;
