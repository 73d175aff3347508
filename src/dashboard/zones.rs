//! The field for a time zone. The browser searches its list for a part of a city, a name or an
//! abbreviation; an unknown zone gets a message with similar names.

use chrono::{Datelike, NaiveDate, Offset, TimeZone};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};
use maud::{Markup, html};

use super::DashboardParts;
use super::form::{FormFields, FormMessages};
use crate::domain::Timestamp;
use crate::domain::cron::parse_timezone;

/// The name of the field.
pub(super) const FIELD: &str = "timezone";
/// The maximum number of similar names in a message.
const MAX_SIMILAR: usize = 3;
/// The minimum similarity of a suggested name, from 0 to 1.
const SIMILAR: f64 = 0.75;

/// Renders the field with the list of zones. Without script it is a field with the same list.
pub(super) fn field(
    dashboard: &DashboardParts,
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    let (value, message, now) = (fields.text(FIELD), messages.of(FIELD), dashboard.clock.now());
    html! {
        div.field.wrong[message.is_some()] {
            label for=(FIELD) { "Time zone" }
            input id=(FIELD) name=(FIELD) type="text" value=(value) list="timezones"
                autocomplete="off" spellcheck="false" aria-invalid=[message.map(|_| "true")]
                aria-describedby={ (FIELD) "-hint" @if message.is_some() { " " (FIELD) "-message" } };
            p.hint id={ (FIELD) "-hint" } {
                "Type a city, a zone or an abbreviation, such as Lagos, Europe/Berlin or CET."
            }
            @if let Some(message) = message {
                p.message id={ (FIELD) "-message" } { (message) " " (advice(value)) }
            }
            datalist #timezones {
                @for zone in TZ_VARIANTS { option value=(zone.name()) label=(label(zone, now)) {} }
            }
        }
    }
}

/// Returns a sentence with the zones whose names are similar to an unknown name. It is empty for
/// the name of a zone.
pub(super) fn advice(text: &str) -> String {
    let text = text.trim();
    if parse_timezone(text).is_ok() {
        return String::new();
    }
    match &similar(text)[..] {
        [] => "Names have the form Europe/Berlin.".to_owned(),
        names => format!("Similar names: {}.", names.join(", ")),
    }
}

/// Returns the names of zones that are similar to a text, the most similar one first.
fn similar(text: &str) -> Vec<&'static str> {
    let wanted = plain(text);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut rated: Vec<_> = TZ_VARIANTS
        .iter()
        .map(|zone| (likeness(*zone, &wanted), zone.name()))
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        .collect();
    rated.sort_by(|(one, its), (other, others)| other.total_cmp(one).then(its.cmp(others)));
    rated.into_iter().take(MAX_SIMILAR).map(|(_, name)| name).collect()
}

/// Returns the similarity of a zone and a text in the plain form: 1 for its name or its city.
fn likeness(zone: Tz, wanted: &str) -> f64 {
    let (name, city) = (plain(zone.name()), plain(city(zone)));
    // People often remember only a part of a name, so a part ranks above a misspelled name.
    let part = if name.contains(wanted) { 0.95 } else { 0.0 };
    let whole = if name == wanted || city == wanted { 1.0 } else { part };
    [&name, &city]
        .iter()
        .fold(whole, |best, one| best.max(0.94 * strsim::jaro_winkler(one, wanted)))
}

/// Returns a text in lower case, with a blank for each separator of words.
fn plain(text: &str) -> String {
    text.trim().to_lowercase().replace(['_', '-'], " ")
}

/// Returns the last part of a name, which is usually a city.
fn city(zone: Tz) -> &'static str {
    zone.name().rsplit('/').next().unwrap_or_default()
}

/// Returns the city, the present offset and the abbreviations of a year, such as
/// `New York, UTC-05:00, EST, EDT`. Browsers search in it.
fn label(zone: Tz, now: Timestamp) -> String {
    let local = now.to_utc().with_timezone(&zone);
    let seconds = local.offset().fix().local_minus_utc();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let city = city(zone).replace('_', " ");
    let mut label = format!("{city}, UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    let of_month = |month| {
        let day = NaiveDate::from_ymd_opt(local.year(), month, 1).unwrap_or_default();
        zone.offset_from_utc_date(&day).abbreviation().map(str::to_owned)
    };
    let (january, july) = (of_month(1), of_month(7));
    let second = july.clone().filter(|_| july != january);
    for short in january.into_iter().chain(second) {
        // Zones without a usual abbreviation have a number.
        if short.starts_with(|first: char| first.is_ascii_alphabetic()) {
            label.push_str(", ");
            label.push_str(&short);
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_city_the_present_offset_and_the_abbreviations() {
        let of = |zone, at: &str| label(zone, at.parse().expect("an instant"));
        let (winter, summer) = ("2026-01-15T12:00:00Z", "2026-07-15T12:00:00Z");
        assert_eq!(of(Tz::Europe__Berlin, winter), "Berlin, UTC+01:00, CET, CEST");
        assert_eq!(of(Tz::Europe__Berlin, summer), "Berlin, UTC+02:00, CET, CEST");
        assert_eq!(of(Tz::America__New_York, winter), "New York, UTC-05:00, EST, EDT");
        assert_eq!(of(Tz::Asia__Kathmandu, winter), "Kathmandu, UTC+05:45");
    }

    #[test]
    fn similar_names_are_suggested() {
        for (text, first) in [
            ("berlin", "Europe/Berlin"),
            ("New York", "America/New_York"),
            ("europe/berln", "Europe/Berlin"),
            ("Europe/Pari", "Europe/Paris"),
            ("Asia/Calcuta", "Asia/Calcutta"),
        ] {
            assert_eq!(similar(text).first(), Some(&first), "{text}: {:?}", similar(text));
        }
        assert!(similar("").is_empty() && similar("zzzzzz").is_empty());
        assert_eq!(advice(" Europe/Berlin "), "");
        assert!(advice("berlin").starts_with("Similar names: Europe/Berlin"));
    }
}
