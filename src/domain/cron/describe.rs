//! Describes an expression in plain English.

use super::Cron;
use super::english::{and, members, month, ordinal, weekday};
use super::fields::{CronFields, FieldUnit};
use super::set::NumberSet;

/// The maximum number of times of the day that are listed one by one.
const LISTED_TIMES: u32 = 6;

/// Returns the meaning of the expression as a phrase without a full stop: `At 09:30, Monday through
/// Friday`. It depends on the values that the fields allow, not on the way they are written.
pub fn describe(cron: &Cron) -> String {
    let fields = cron.fields();
    [Some(times(fields)), days(fields), months(fields)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

fn times(fields: &CronFields) -> String {
    let (minutes, hours) = (fields.minute.set, fields.hour.set);
    if fields.hour.is_full() {
        return minutes_of_every_hour(minutes);
    }
    if let Some(step @ 2..=8) = divides(hours, 24)
        && hours.first() == 0
        && minutes == NumberSet::range(0, 0)
    {
        return format!("Every {step} hours");
    }
    if minutes.len() * hours.len() <= LISTED_TIMES {
        let times = hours
            .iter()
            .flat_map(|hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}")));
        return format!("At {}", and(&times.collect::<Vec<_>>()));
    }
    if minutes == NumberSet::range(0, 0) && hours.spacing() == Some(1) {
        return format!("Every hour from {:02}:00 through {:02}:00", hours.first(), hours.last());
    }
    format!("{}, {}", minutes_of_some_hours(minutes), in_hours(hours))
}

fn minutes_of_every_hour(minutes: NumberSet) -> String {
    if minutes == NumberSet::range(0, 0) {
        return "Every hour, on the hour".to_owned();
    }
    match frequency(minutes) {
        Some(phrase) => phrase,
        None => format!("At {} past every hour", minutes_past(minutes)),
    }
}

fn minutes_of_some_hours(minutes: NumberSet) -> String {
    frequency(minutes).unwrap_or_else(|| format!("At {} past the hour", minutes_past(minutes)))
}

/// Returns "Every 5 minutes", if the minutes are evenly spaced all around the hour.
fn frequency(minutes: NumberSet) -> Option<String> {
    match divides(minutes, 60)? {
        _ if minutes.first() != 0 => None,
        1 => Some("Every minute".to_owned()),
        step => Some(format!("Every {step} minutes")),
    }
}

/// Returns the even spacing of the set, if it continues over the end of the round.
fn divides(set: NumberSet, round: u32) -> Option<u32> {
    let halves = set.len() == 2 && set.last() - set.first() == round / 2;
    let step = if halves { round / 2 } else { set.spacing()? };
    (round.is_multiple_of(step) && set.len() == round / step).then_some(step)
}

fn minutes_past(minutes: NumberSet) -> String {
    let unit = if minutes == NumberSet::range(1, 1) { "minute" } else { "minutes" };
    format!("{} {unit}", members(minutes, |minute| minute.to_string()))
}

fn in_hours(hours: NumberSet) -> String {
    let hour = |hour: u32| format!("{hour:02}");
    match hours.spacing() {
        step if step == Some(1) || hours.len() == 1 => {
            format!("from {:02}:00 through {:02}:59", hours.first(), hours.last())
        }
        Some(step) if divides(hours, 24).is_some() && hours.first() == 0 => {
            format!("in every {} hour", ordinal(step))
        }
        _ => format!("in the hours {}", and(&hours.iter().map(hour).collect::<Vec<_>>())),
    }
}

fn days(fields: &CronFields) -> Option<String> {
    let by_day = (!fields.day.is_full()).then(|| days_of_month(fields.day.set));
    let by_weekday = (!fields.weekday.is_full()).then(|| weekdays(fields.weekday.set));
    match (by_day, by_weekday) {
        // If either field suffices, a field that allows everything makes the other one irrelevant.
        (Some(day), Some(weekday)) if fields.either_day() => Some(format!("{day} or {weekday}")),
        (Some(day), Some(weekday)) => Some(format!("{day}, but only {weekday}")),
        _ if fields.either_day() => None,
        (day, weekday) => day.or(weekday),
    }
}

fn days_of_month(days: NumberSet) -> String {
    match days.spacing() {
        Some(step) if step > 1 && days.len() > 3 => format!(
            "on every {} day of the month from day {} through {}",
            ordinal(step),
            days.first(),
            days.last()
        ),
        _ => {
            let unit = if days.len() == 1 { "day" } else { "days" };
            format!("on {unit} {} of the month", members(days, |day| day.to_string()))
        }
    }
}

fn weekdays(weekdays: NumberSet) -> String {
    // A week starts on Monday, unless the days are consecutive only if it starts on Sunday.
    let from_monday = weekdays.renamed(0, 7);
    let row = weekdays.spacing() == Some(1);
    let shown = if row { weekdays } else { from_monday };
    let words = members(shown, weekday);
    if shown.spacing() == Some(1) { words } else { format!("on {words}") }
}

fn months(fields: &CronFields) -> Option<String> {
    let months = fields.month.set;
    if months == FieldUnit::Month.all() {
        return None;
    }
    let words = members(months, month);
    Some(if months.spacing() == Some(1) { format!("from {words}") } else { format!("in {words}") })
}
