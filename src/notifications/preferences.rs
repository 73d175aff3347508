//! Notification preferences: the outcomes of a schedule that raise alerts, and the channels that
//! receive them.

use std::collections::BTreeSet;

use super::warning::warning;
use super::{NotificationError, NotificationParts, Notifications, PreferenceUpdate};
use crate::domain::alert::policy::{AlertPolicy, MAX_REPEAT_MINUTES, MAX_THRESHOLD};
use crate::domain::call::Call;
use crate::domain::channel::Channel;
use crate::domain::field_errors::{FieldErrors, choices};
use crate::domain::plan::{LimitExceeded, NotifyOn, Plan};
use crate::domain::request_body::Field;
use crate::domain::{AccountId, ChannelId, ScheduleId};
use crate::store::{NewPreference, PreferenceSet, StoredPreference};

/// The maximum number of channels of a preference.
pub const MAX_CHANNELS: usize = 10;

const CHANNEL_IDS: &str = "channelIds";
const NOT_FOUND: &str = "Channel not found";
const UNVERIFIED: &str = "Channel must be verified";

/// The preference of a schedule, as its account sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The rules that decide when an alert is raised.
    pub policy: AlertPolicy,
    /// The attached channels that are verified, in the order given in the request.
    pub channels: Vec<Channel>,
    /// A sentence that explains why alerts do not reach some or all channels, if that is the case.
    pub warning: Option<String>,
}

impl Preference {
    fn new(schedule: ScheduleId, stored: StoredPreference) -> Self {
        let warning = warning(&stored);
        let attached = stored.channels.into_iter().map(|attached| attached.channel);
        let channels = attached.filter(|channel| channel.verified).collect();
        Self { schedule, policy: stored.policy, channels, warning }
    }
}

impl Notifications {
    /// Returns the preference of a schedule, or the default preference if none was set.
    pub async fn preference(
        &self,
        account: AccountId,
        schedule: ScheduleId,
    ) -> Result<Preference, NotificationError> {
        let stored = self.0.stored_preference(account, schedule).await?;
        Ok(Preference::new(schedule, stored))
    }

    /// Replaces the preference of a schedule.
    pub async fn set_preference(
        &self,
        account: AccountId,
        call: Call,
        schedule: ScheduleId,
        request: PreferenceUpdate,
    ) -> Result<Preference, NotificationError> {
        let parts = self.0.clone();
        self.run(async move {
            let plan = parts.admit(account).await?;
            let current = parts.stored_preference(account, schedule).await?;
            let channels = parts.store.channels(account).await?;
            let new = read(request, &channels)?;
            check_plan(&plan, &new, &current, &channels)?;
            let write = parts.write(account, call, parts.clock.now());
            match parts.store.set_preference(&write, schedule, &new).await? {
                PreferenceSet::Done => {}
                PreferenceSet::NoSuchSchedule => return Err(NotificationError::NoSuchSchedule),
                // Another call deleted or changed the channel after it was read above.
                PreferenceSet::NoSuchChannel(_) => {
                    return Err(FieldErrors::of(CHANNEL_IDS, NOT_FOUND).into());
                }
                PreferenceSet::Unverified(_) => {
                    return Err(FieldErrors::of(CHANNEL_IDS, UNVERIFIED).into());
                }
            }
            let stored = parts.stored_preference(account, schedule).await?;
            Ok(Preference::new(schedule, stored))
        })
        .await
    }
}

impl NotificationParts {
    async fn stored_preference(
        &self,
        account: AccountId,
        schedule: ScheduleId,
    ) -> Result<StoredPreference, NotificationError> {
        let found = self.store.preference(account, schedule).await?;
        found.ok_or(NotificationError::NoSuchSchedule)
    }
}

/// Validates a request. `channels` are all channels of the account.
fn read(request: PreferenceUpdate, channels: &[Channel]) -> Result<NewPreference, FieldErrors> {
    let mut errors = FieldErrors::new();
    let notify_on = request.notify_on.required("notifyOn", &mut errors).and_then(|text| {
        let notify_on = text.parse().ok();
        if notify_on.is_none() {
            errors.add("notifyOn", choices(NotifyOn::ALL));
        }
        notify_on
    });
    let given = request.channel_ids;
    let is_readable = !matches!(given, Field::Wrong(_));
    let ids = given.optional(CHANNEL_IDS, &mut errors).unwrap_or_default();
    let wants_channels = notify_on.is_some_and(|notify_on| notify_on != NotifyOn::None);
    if is_readable && wants_channels && ids.is_empty() {
        errors.add(CHANNEL_IDS, "Must name at least one channel");
    }
    let attached = read_ids(ids, channels, &mut errors);
    let threshold = request.failure_threshold.optional("failureThreshold", &mut errors);
    let recovery = request.notify_on_recovery.optional("notifyOnRecovery", &mut errors);
    let repeat = request.repeat_every_minutes.optional("repeatEveryMinutes", &mut errors);
    let policy = AlertPolicy {
        notify_on: notify_on.unwrap_or(NotifyOn::None),
        failure_threshold: threshold.map_or(1, |given| clamped(given, MAX_THRESHOLD)),
        notify_on_recovery: recovery.unwrap_or(false),
        repeat_every_minutes: repeat.map(|given| clamped(given, MAX_REPEAT_MINUTES)),
    };
    errors.unless_any(NewPreference { policy, channels: attached })
}

/// Returns the channels that `ids` name, without duplicates. Each error message is added once, even
/// if several ids cause it.
fn read_ids(ids: Vec<String>, channels: &[Channel], errors: &mut FieldErrors) -> Vec<ChannelId> {
    let mut seen = BTreeSet::new();
    let mut distinct = ids;
    distinct.retain(|id| seen.insert(id.clone()));
    if distinct.len() > MAX_CHANNELS {
        errors.add(CHANNEL_IDS, format!("Must name at most {MAX_CHANNELS} channels"));
        return Vec::new();
    }
    let find = |id: &String| {
        let id: ChannelId = id.parse().ok()?;
        channels.iter().find(|channel| channel.id == id)
    };
    let found: Vec<Option<&Channel>> = distinct.iter().map(find).collect();
    if found.iter().any(Option::is_none) {
        errors.add(CHANNEL_IDS, NOT_FOUND);
    }
    if found.iter().flatten().any(|channel| !channel.verified) {
        errors.add(CHANNEL_IDS, UNVERIFIED);
    }
    found.into_iter().flatten().map(|channel| channel.id).collect()
}

fn clamped(given: i64, most: u32) -> u32 {
    u32::try_from(given.clamp(1, i64::from(most))).unwrap_or(most)
}

/// Checks the additions of a new preference against the plan. The unchanged parts may exceed the
/// plan, because the account may have been on a larger plan before.
fn check_plan(
    plan: &Plan,
    new: &NewPreference,
    current: &StoredPreference,
    channels: &[Channel],
) -> Result<(), LimitExceeded> {
    if new.policy.notify_on != current.policy.notify_on {
        plan.check_notify_on(new.policy.notify_on)?;
    }
    let is_attached = |id| current.channels.iter().any(|attached| attached.channel.id == id);
    channels
        .iter()
        .filter(|channel| new.channels.contains(&channel.id) && !is_attached(channel.id))
        .try_for_each(|channel| plan.check_channel_type(channel.kind))
}

#[cfg(test)]
mod tests;
