//! Notification preferences: the outcomes of a schedule that raise alerts, and their channels.

use crate::domain::alert::policy::AlertPolicy;
use crate::domain::channel::Channel;
use crate::domain::plan::NotifyOn;
use crate::domain::{AccountId, ChannelId, ScheduleId};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// A schedule's preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPreference {
    /// The rule by which alerts are raised.
    pub policy: AlertPolicy,
    /// The attached channels, in the order in which they were given, including those that are no
    /// longer verified.
    pub channels: Vec<AttachedChannel>,
    /// The label of a channel that was deleted after the preference was set.
    pub detached: Option<String>,
}

/// A channel of a preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedChannel {
    /// The channel.
    pub channel: Channel,
    /// The reason in words for which the channel lost `verified`, if no change of it was the cause.
    pub trouble: Option<String>,
}

/// A preference to be stored, which replaces the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPreference {
    /// The rule by which alerts are raised.
    pub policy: AlertPolicy,
    /// The channels to attach, each once.
    pub channels: Vec<ChannelId>,
}

/// The result of setting a preference. All results but `Done` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferenceSet {
    /// The preference was stored.
    Done,
    /// The account has no such schedule.
    NoSuchSchedule,
    /// The account does not have this channel.
    NoSuchChannel(ChannelId),
    /// This channel is not verified.
    Unverified(ChannelId),
}

/// The schedules whose preferences name a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelUses {
    /// Ids and names, newest schedule first.
    pub schedules: Vec<(ScheduleId, String)>,
    /// The number of all such schedules.
    pub total: u64,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Notification preferences of schedules.
    pub trait PreferenceStore: Send + Sync {
        /// Returns the preference of a schedule, or the default one if none was set; `None` if the
        /// account has no such schedule.
        async fn preference(
            &self,
            account: AccountId,
            schedule: ScheduleId,
        ) -> Result<Option<StoredPreference>>;

        /// Replaces the preference of a schedule. Jobs that end afterwards raise events by the new
        /// one.
        async fn set_preference(
            &self,
            write: &WriteContext,
            schedule: ScheduleId,
            new: &NewPreference,
        ) -> Result<PreferenceSet>;

        /// Returns at most `limit` schedules whose preferences name a channel, including those that
        /// raise no alerts. There are none if the account has no such channel.
        async fn channel_uses(
            &self,
            account: AccountId,
            channel: ChannelId,
            limit: u32,
        ) -> Result<ChannelUses>;
    }
}

/// The bits of `schedule_state.alert_on`.
const FAILURES: i16 = 1;
const SUCCESSES: i16 = 2;
const RECOVERIES: i16 = 4;

/// The columns of a policy in `schedule_state`: `alert_on`, which is null if nothing raises an
/// alert; `alert_threshold`; `alert_repeat_minutes`.
pub(in crate::store) type PolicyColumns = (Option<i16>, Option<i32>, Option<i32>);

/// Returns the columns of a policy in `schedule_state`.
pub(in crate::store) fn policy_columns(policy: AlertPolicy) -> PolicyColumns {
    let recovery = if policy.notify_on_recovery { RECOVERIES } else { 0 };
    let bits = match policy.notify_on {
        NotifyOn::None => return (None, None, None),
        NotifyOn::Failure => FAILURES,
        NotifyOn::Success => SUCCESSES,
        NotifyOn::Both => FAILURES | SUCCESSES,
    };
    let threshold = policy.failure_threshold.cast_signed();
    (Some(bits | recovery), Some(threshold), policy.repeat_every_minutes.map(u32::cast_signed))
}

/// Returns the policy of these columns of `schedule_state`.
pub(in crate::store) fn policy_of((bits, threshold, repeat): PolicyColumns) -> AlertPolicy {
    let bits = bits.unwrap_or(0);
    let notify_on = match (bits & FAILURES != 0, bits & SUCCESSES != 0) {
        (false, false) => NotifyOn::None,
        (true, false) => NotifyOn::Failure,
        (false, true) => NotifyOn::Success,
        (true, true) => NotifyOn::Both,
    };
    AlertPolicy {
        notify_on,
        failure_threshold: threshold.unwrap_or(1).unsigned_abs(),
        notify_on_recovery: bits & RECOVERIES != 0,
        repeat_every_minutes: repeat.map(i32::unsigned_abs),
    }
}

/// A stored preference without its channels.
pub(in crate::store) struct PreferenceRow {
    pub(in crate::store) policy: AlertPolicy,
    pub(in crate::store) detached: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_back() {
        for notify_on in NotifyOn::ALL {
            let policy = AlertPolicy {
                notify_on: *notify_on,
                failure_threshold: 3,
                notify_on_recovery: true,
                repeat_every_minutes: Some(60),
            };
            let told = if *notify_on == NotifyOn::None { AlertPolicy::default() } else { policy };
            assert_eq!(policy_of(policy_columns(policy)), told, "{notify_on}");
        }
    }
}
