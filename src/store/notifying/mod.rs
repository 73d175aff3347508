//! Notification channels, preferences and alerts, within a transaction, of both adapters: each has this
//! folder as a module of its own. How a batch is taken apart is in its `batch_rows`, how rows are locked
//! in its `account_lock`.
//!
//! Locks are taken in this order: the account, the schedule, channels by id, the state
//! of the schedule, deliveries.

mod channels;
pub(super) mod claiming;
mod content;
pub(super) mod listing;
mod planned;
mod preferences;
mod raising;
pub(super) mod relaying;
mod shares;
mod tries;
pub(super) mod work;

pub(super) use channels::{
    SealedChange, change_channel, channel, channels, count_test, create_channel, delete_channel,
    unverify_channel, verify_channel,
};
pub(super) use claiming::{claim_deliveries, release_deliveries};
pub(super) use listing::{deliveries, delivery, prune_deliveries, redeliver};
pub(super) use preferences::{clear_preferences, preference, set_preference};
pub(super) use raising::raise;
pub(super) use relaying::relay;
pub(super) use tries::complete_tries;
pub(super) use work::alert_work;
