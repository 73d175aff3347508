//! English words for descriptions and warnings.

use chrono::DateTime;

use super::set::NumberSet;

/// Returns January for 1.
pub(super) fn month(number: u32) -> String {
    const NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    name(&NAMES, number.saturating_sub(1))
}

/// Returns Sunday for 0 and for 7.
pub(super) fn weekday(number: u32) -> String {
    const NAMES: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    name(&NAMES, number % 7)
}

fn name(names: &[&str], position: u32) -> String {
    let name = usize::try_from(position).ok().and_then(|position| names.get(position));
    name.copied().unwrap_or_default().to_owned()
}

/// Returns 2nd, 11th, 23rd.
pub(super) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Returns "a", "a and b", "a, b and c".
pub(super) fn and(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Returns a set in words: "a through c" for three or more consecutive numbers, else a list.
pub(super) fn members(set: NumberSet, word: impl Fn(u32) -> String) -> String {
    if set.spacing() == Some(1) {
        return format!("{} through {}", word(set.first()), word(set.last()));
    }
    and(&set.iter().map(word).collect::<Vec<_>>())
}

/// Returns 02:30 for a wall time in seconds since 1970.
pub(super) fn time(wall: i64) -> String {
    DateTime::from_timestamp(wall, 0).unwrap_or_default().format("%H:%M").to_string()
}

/// Returns 2026-03-29 for a wall time in seconds since 1970.
pub(super) fn date(wall: i64) -> String {
    DateTime::from_timestamp(wall, 0).unwrap_or_default().format("%Y-%m-%d").to_string()
}
