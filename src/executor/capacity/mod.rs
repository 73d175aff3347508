//! How many attempts may begin: in all, of each account and to each host.

pub(super) mod account_concurrency;
pub(super) mod slot_queue;
pub(super) mod slots;
