//! Notification channels, preferences and alerts.
//!
//! Locks are taken in this order: the account, the schedule, channels by id, the state of the
//! schedule, deliveries by id.

mod channels;
mod chosen_deliveries;
pub(in crate::store) mod claimed;
pub(in crate::store) mod claiming;
mod content;
mod contract;
pub(in crate::store) mod items;
pub(in crate::store) mod listing;
pub(in crate::store) mod plan;
mod planned;
pub(in crate::store) mod preferences;
mod raising;
pub(in crate::store) mod relaying;
pub(in crate::store) mod rows;
mod tries;
pub(in crate::store) mod work;

pub(in crate::store) use channels::{
    SealedChange, change_channel, channel, channels, count_test, create_channel, delete_channel,
    unverify_channel, verify_channel,
};
pub(in crate::store) use claiming::{claim_deliveries, release_deliveries};
pub(in crate::store) use listing::{deliveries, delivery, prune_deliveries, redeliver};
pub(in crate::store) use preferences::{
    channel_uses, clear_preferences, preference, set_preference,
};
pub(in crate::store) use raising::raise;
pub(in crate::store) use relaying::relay;
pub(in crate::store) use tries::complete_tries;
pub(in crate::store) use work::alert_work;
