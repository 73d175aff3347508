//! The settings of the notifier.

use std::time::Duration;

use super::reader::{SettingsReader, list, number};
use crate::domain::alert::delivery::{TRIES, TrySchedule};
use crate::domain::alert::grouping::GroupingRules;
use crate::notify::NotifierSettings;

pub(super) fn read_notify(reader: &mut SettingsReader) -> NotifierSettings {
    let rules = GroupingRules {
        per_minute: reader.read("notify.channel_per_minute", number(0..=100_000)),
        incident_schedules: reader.read("notify.incident_schedules", number(0..=100_000)),
        ..GroupingRules::default()
    };
    NotifierSettings {
        slots: reader.read("notify.slots", number(1..=10_000)),
        per_channel: reader.read("notify.per_channel", number(1..=1_000)),
        tries: TrySchedule { offsets: read_offsets(reader) },
        rules,
        ..NotifierSettings::default()
    }
}

/// Reads the due times of the retries: increasing, one for each try but the first.
fn read_offsets(reader: &mut SettingsReader) -> [Duration; TRIES as usize - 1] {
    let seconds: Vec<u64> = reader.read("notify.retry_seconds", list(number(1..=86_400)));
    let offsets: Vec<Duration> = seconds.iter().map(|s| Duration::from_secs(*s)).collect();
    let grows = offsets.is_sorted_by(|a, b| a < b);
    match offsets.try_into() {
        Ok(offsets) if grows => offsets,
        _ => {
            reader.mistake(
                "notify.retry_seconds",
                "must be four numbers, each greater than the last",
            );
            TrySchedule::default().offsets
        }
    }
}
