//! Notification preferences: which outcomes of a schedule are told, on which channels.

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
    /// The channels that are attached, in the order in which they were given; those too that are not
    /// verified any more.
    pub channels: Vec<AttachedChannel>,
    /// The label of a channel that was deleted since the preference was set.
    pub detached: Option<String>,
}

/// A channel of a preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedChannel {
    /// The channel.
    pub channel: Channel,
    /// Why it is not verified any more, if it lost that by itself.
    pub trouble: Option<String>,
}

/// A preference to be stored, in place of the one there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPreference {
    /// The rule by which alerts are raised.
    pub policy: AlertPolicy,
    /// The channels to attach, each once.
    pub channels: Vec<ChannelId>,
}

/// What became of a preference to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferenceSet {
    /// It is there.
    Done,
    /// The account has no such schedule.
    NoSuchSchedule,
    /// The account has not got this channel.
    NoSuchChannel(ChannelId),
    /// This channel is not verified.
    Unverified(ChannelId),
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Notification preferences of schedules.
    pub trait PreferenceStore: Send + Sync {
        /// The preference of a schedule, the default one if none was set; `None` if the account has no such
        /// schedule.
        async fn preference(
            &self,
            account: AccountId,
            schedule: ScheduleId,
        ) -> Result<Option<StoredPreference>>;

        /// Replaces the preference of a schedule. Jobs that end from then on raise events by it.
        async fn set_preference(
            &self,
            write: &WriteContext,
            schedule: ScheduleId,
            new: &NewPreference,
        ) -> Result<PreferenceSet>;
    }
}

/// The bits of `schedule_state.alert_on`.
const FAILURES: i16 = 1;
const SUCCESSES: i16 = 2;
const RECOVERIES: i16 = 4;

/// A policy as it is kept in the state of a schedule: `alert_on`, absent if nothing is told;
/// `alert_threshold`; `alert_repeat_minutes`.
pub(in crate::store) type PolicyColumns = (Option<i16>, Option<i32>, Option<i32>);

/// How a policy is kept in the state of a schedule.
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

/// The policy that the state of a schedule keeps.
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

/// A preference as it is stored, without its channels.
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
