//! Previews the next runs of a recurrence.

use chrono::{DateTime, FixedOffset};

use super::Recurrence;
use super::english::{date, time};
use crate::domain::Timestamp;

/// A future run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureRun {
    /// The instant.
    pub utc: Timestamp,
    /// The wall time of the run with its offset, as ISO 8601: `2026-03-29T03:00:00+02:00`.
    pub local: String,
    /// A sentence about the effect of a clock change on this run, if there is one.
    pub note: Option<String>,
}

/// Returns the first `count` runs after `from`; fewer if the year 2100 ends earlier.
pub fn preview(recurrence: &Recurrence, from: Timestamp, count: usize) -> Vec<FutureRun> {
    let ticks =
        std::iter::successors(recurrence.next_after(from), |&tick| recurrence.next_after(tick));
    ticks.take(count).map(|tick| run(recurrence, tick)).collect()
}

fn run(recurrence: &Recurrence, tick: Timestamp) -> FutureRun {
    let seconds = tick.as_millis().div_euclid(1000);
    let zone = recurrence.zone();
    let offset = zone.spans()[zone.position(seconds)].offset;
    FutureRun { utc: tick, local: local(seconds, offset), note: note(recurrence, seconds) }
}

fn local(instant: i64, offset: i64) -> String {
    let offset = i32::try_from(offset).ok().and_then(FixedOffset::east_opt);
    let utc = DateTime::from_timestamp(instant, 0).unwrap_or_default();
    offset.map_or_else(|| utc.to_rfc3339(), |offset| utc.with_timezone(&offset).to_rfc3339())
}

fn note(recurrence: &Recurrence, tick: i64) -> Option<String> {
    let zone = recurrence.zone();
    let position = zone.position(tick);
    let span = zone.spans()[position];
    let wall = tick + span.offset;
    let shown_again = zone.spans().get(position + 1).is_some_and(|next| next.first_wall() <= wall);
    if recurrence.cron().fields().every_pass() {
        return if wall < span.reach {
            Some(format!("{} is shown twice on this day; this is the second time.", time(wall)))
        } else {
            shown_again.then(|| {
                format!("{} is shown twice on this day; this is the first time.", time(wall))
            })
        };
    }
    if shown_again {
        return Some(format!("{} is shown twice on this day; it runs the first time.", time(wall)));
    }
    if tick == span.start { moved(recurrence, span.reach, wall) } else { None }
}

/// Returns the note on a run at the end of the gap of wall times from `first` to before `end`.
fn moved(recurrence: &Recurrence, first: i64, end: i64) -> Option<String> {
    let cron = recurrence.cron();
    let skipped = cron.fields().count(first, end - 1);
    let show = |wall| format!("{} {}", date(wall), time(wall));
    let earliest = cron.evaluation().after(first - 1).filter(|_| skipped > 0).map(show)?;
    let latest = cron.evaluation().before(end).map(show)?;
    Some(match skipped {
        1 => format!("{earliest} is skipped by the clock; it runs at the end of the gap."),
        _ => format!(
            "{skipped} times from {earliest} to {latest} are skipped by the clock; they run once, \
             at the end of the gap."
        ),
    })
}
