//! Channels, preferences and alerts.

use punctual::domain::alert::grouping::GroupingRules;
use punctual::domain::channel::{Channel, ChannelConfig};
use punctual::domain::{ChannelId, DeliveryId};
use punctual::store::{
    AlertStore, AlertWork, ChannelChange, ChannelChanged, ChannelCreated, ChannelStore,
    ChannelUses, ClaimedDeliveries, Delivery, DeliveryClaim, DeliveryPage, DeliveryQuery,
    NewChannel, NewPreference, PreferenceSet, PreferenceStore, Redelivered, RelayResult,
    StoredChannel, StoredPreference, TestAllowance, TryEnd,
};

use super::*;

flaky! { ChannelStore:
    fn create_channel(&self, write: &WriteContext, channel: &NewChannel, most: Option<u64>)
        -> ChannelCreated
        => |lost, again| done_once(lost, again, |made| *made == ChannelCreated::Done, |_, again| {
            is_refused(again) || matches!(again, Ok(ChannelCreated::TooMany { .. }))
        });
    fn channels(&self, account: AccountId) -> Vec<Channel>;
    fn channel(&self, account: AccountId, id: ChannelId) -> Option<StoredChannel>;
    // The unique audit entry rejects a repeated change of only the label.
    fn change_channel(&self, write: &WriteContext, id: ChannelId, revision: i64, change: &ChannelChange)
        -> ChannelChanged
        => |lost, again| {
            let done = |changed: &ChannelChanged| *changed == ChannelChanged::Done;
            done_once(lost, again, done, |_, again| {
                is_refused(again) || matches!(again, Ok(ChannelChanged::Stale))
            })
        };
    fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> bool
        => |lost, again| done_once(lost, again, |gone| *gone, |_, again| matches!(again, Ok(false)));
    // A repeated count counts again, because the test may or may not have been sent.
    fn count_test(&self, account: AccountId, id: ChannelId, now: Timestamp) -> TestAllowance;
    fn verify_channel(&self, write: &WriteContext, id: ChannelId, revision: i64,
        config: Option<&ChannelConfig>) -> ChannelChanged
        => |lost, again| {
            let done = |changed: &ChannelChanged| *changed == ChannelChanged::Done;
            done_once(lost, again, done, |_, again| {
                is_refused(again) || matches!(again, Ok(ChannelChanged::Stale))
            })
        };
    fn unverify_channel(&self, write: &WriteContext, id: ChannelId, trouble: &str) -> bool;
}

flaky! { PreferenceStore:
    fn preference(&self, account: AccountId, schedule: ScheduleId) -> Option<StoredPreference>;
    fn channel_uses(&self, account: AccountId, channel: ChannelId, limit: u32) -> ChannelUses;
    fn set_preference(&self, write: &WriteContext, schedule: ScheduleId, new: &NewPreference)
        -> PreferenceSet
        => |lost, again| {
            done_once(lost, again, |set| *set == PreferenceSet::Done, |_, again| {
                // The schedule or a channel may have been deleted in between.
                is_refused(again) || !matches!(again, Ok(PreferenceSet::Done))
            })
        };
}

flaky! { AlertStore:
    fn alert_work(&self, now: Timestamp) -> AlertWork;
    // A repeated call is the next pass, which follows anyway.
    fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> RelayResult
        => |lost, again| both(lost, again, |lost: RelayResult, again: RelayResult| RelayResult {
            events: lost.events + again.events,
            planned: lost.planned + again.planned,
            merged: lost.merged + again.merged,
            undeliverable: lost.undeliverable + again.undeliverable,
            opened: lost.opened + again.opened,
            closed: lost.closed + again.closed,
        });
    // Claimed deliveries stay claimed until the claim ends, even for the same notifier.
    fn claim_deliveries(&self, claim: &DeliveryClaim) -> ClaimedDeliveries
        => |lost, again| both(lost, again, |lost: ClaimedDeliveries, again: ClaimedDeliveries| {
            ClaimedDeliveries {
                taken: each_once(lost.taken, again.taken, |claimed| claimed.id),
                undeliverable: lost.undeliverable + again.undeliverable,
            }
        });
    fn release_deliveries(&self, now: Timestamp) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
    fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Vec<bool>
        => |lost, again| both(lost, again, |lost: Vec<bool>, again: Vec<bool>| {
            let once = |(lost, again): (bool, bool)| {
                assert!(!lost || !again, "a try ended twice");
                lost || again
            };
            lost.into_iter().zip(again).map(once).collect()
        });
    fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> DeliveryPage;
    fn delivery(&self, account: AccountId, id: DeliveryId) -> Option<Delivery>;
    fn redeliver(&self, write: &WriteContext, id: DeliveryId) -> Redelivered
        => |lost, again| done_once(lost, again, |done| *done == Redelivered::Done, |_, again| {
            // In between, another notifier may have tried it in vain, or its channel may have been
            // deleted.
            is_refused(again) || !matches!(again, Ok(Redelivered::Done | Redelivered::NotFound))
        });
    fn prune_deliveries(&self, before: Timestamp, limit: u32) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
}
