//! The finished jobs of an account over time as charts: their outcomes, and their start lags.

use maud::{Markup, html};

use super::activity::{Activity, ActivityRange};
use crate::dashboard::chart::{self, StackedBar};
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::time::ShownZone;
use crate::dashboard::{DashboardParts, table};
use crate::domain::Timestamp;
use crate::domain::hours::AccountHour;

/// The names of the outcomes, with the classes of their colours.
const OUTCOMES: [(&str, &str); 3] =
    [("success", "Succeeded"), ("failed", "Failed"), ("cancelled", "Cancelled")];
/// The classes of start lags in words.
const LAG_TEXTS: [&str; 8] =
    ["10 ms", "50 ms", "100 ms", "250 ms", "1 s", "10 s", "1 min", "more than 1 min"];
/// The groups of classes of start lags in the chart: the last class of each, and its colour.
const LAG_GROUPS: [(usize, &str, &str); 4] = [
    (3, "prompt", "Began within 250 ms"),
    (4, "slow", "Within 1 s"),
    (5, "late", "Within 10 s"),
    (7, "longest", "Later"),
];
/// The number of times below a chart.
const TIMES: usize = 5;

/// Renders the choice of the range, the charts, the figures in words and the values as a table.
pub(super) fn charts(dashboard: &DashboardParts, activity: &Activity, zone: ShownZone) -> Markup {
    let (range, sum) = (activity.range, activity.sum());
    html! {
        h2 { "Finished jobs" }
        nav.choice aria-label="Range of the charts" {
            @for one in ActivityRange::ALL {
                a href=(dashboard.address("", [("range", one.name())]))
                    aria-current=[(one == range).then_some("true")] { (one.text()) }
            }
        }
        @if sum.jobs() == 0 {
            p.soft { "No job ended in the last " (range.text()) "." }
        } @else {
            div.charts {
                div {
                    h3 { "Outcomes" }
                    p { (totals(&sum)) }
                    (outcomes(activity, zone))
                }
                @if let Some(lags) = lag_texts(&sum) {
                    div {
                        h3 { "Start lag" }
                        p { (lags) }
                        (lags_chart(activity, zone))
                    }
                }
            }
            (chart::values("Finished jobs as a table", &values(activity, zone)))
        }
    }
}

/// Returns the outcomes of jobs, and the rate of success of those that were not cancelled.
fn totals(sum: &AccountHour) -> String {
    let AccountHour { succeeded, failed, cancelled, .. } = *sum;
    let counts = outcome_texts(sum);
    match (succeeded * 1_000).checked_div(succeeded + failed) {
        // Rounded down, so that one failure among many jobs leaves less than 100 %.
        Some(rate) => {
            let without = if cancelled > 0 { " (without the cancelled ones)" } else { "" };
            format!("{counts}. Success rate: {}.{} %{without}.", rate / 10, rate % 10)
        }
        None => format!("{counts}."),
    }
}

fn outcome_texts(of: &AccountHour) -> String {
    let AccountHour { succeeded, failed, cancelled, .. } = *of;
    format!("{succeeded} succeeded, {failed} failed, {cancelled} cancelled")
}

/// Returns the start lags that a half and 99 % of the jobs did not exceed.
fn lag_texts(of: &AccountHour) -> Option<String> {
    let [half, most] = [50, 99].map(|percent| of.lag_percentile(percent));
    let (half, most) = (half?, most?);
    Some(if half == most {
        format!("99 % began {}.", after(most))
    } else {
        format!("Half of them began {}, 99 % {}.", after(half), after(most))
    })
}

/// Returns the words for a class of start lags that jobs did not exceed.
fn after(class: usize) -> String {
    match LAG_TEXTS.get(class) {
        Some(bound) if class < LAG_TEXTS.len() - 1 => format!("within {bound}"),
        _ => "after more than 1 min".to_owned(),
    }
}

fn outcomes(activity: &Activity, zone: ShownZone) -> Markup {
    let most = activity.periods.iter().map(AccountHour::jobs).max().unwrap_or(0);
    let stack = |(position, period): (usize, &AccountHour)| StackedBar {
        position,
        parts: [period.succeeded, period.failed, period.cancelled]
            .into_iter()
            .zip(OUTCOMES)
            .map(|(jobs, (class, _))| (class, jobs))
            .collect(),
        full: most,
        title: format!("{}: {}", activity.range.clock(period.start, zone), outcome_texts(period)),
    };
    let about = format!(
        "Jobs by outcome {}, at most {most}. The table below has the values.",
        activity.range.by_period()
    );
    html! {
        (drawn(activity, zone, &about, stack))
        (chart::key(OUTCOMES))
    }
}

fn lags_chart(activity: &Activity, zone: ShownZone) -> Markup {
    let stack = |(position, period): (usize, &AccountHour)| StackedBar {
        position,
        parts: groups(period),
        full: period.lags.iter().sum(),
        title: format!(
            "{}: {}",
            activity.range.clock(period.start, zone),
            lag_texts(period).unwrap_or_default()
        ),
    };
    let about = format!(
        "Shares of jobs by start lag {}. The table below has the values.",
        activity.range.by_period()
    );
    html! {
        (drawn(activity, zone, &about, stack))
        (chart::key(LAG_GROUPS.map(|(_, class, name)| (class, name))))
    }
}

/// Returns the jobs of each group of start lags.
fn groups(period: &AccountHour) -> Vec<(&'static str, u64)> {
    let mut first = 0;
    let group = |(last, class, _): (usize, &'static str, &str)| {
        let jobs = period.lags[first..=last].iter().sum();
        first = last + 1;
        (class, jobs)
    };
    LAG_GROUPS.into_iter().map(group).collect()
}

/// Renders a chart with the times below it. Periods without jobs have no bar.
fn drawn<'a>(
    activity: &'a Activity,
    zone: ShownZone,
    about: &str,
    stack: impl FnMut((usize, &'a AccountHour)) -> StackedBar,
) -> Markup {
    let periods = &activity.periods;
    let with_jobs = periods.iter().enumerate().filter(|(_, period)| period.jobs() > 0);
    let stacks: Vec<StackedBar> = with_jobs.map(stack).filter(|stack| stack.full > 0).collect();
    let last = periods.len().saturating_sub(1);
    let times = (0..TIMES).filter_map(|time| periods.get(time * last / (TIMES - 1)));
    html! {
        (chart::stacks(about, periods.len(), &stacks))
        div.axis aria-hidden="true" {
            @for period in times {
                span { (below(activity.range, period.start, zone)) }
            }
        }
    }
}

/// Returns the short text of a time below a chart.
fn below(range: ActivityRange, start: Timestamp, zone: ShownZone) -> String {
    match range {
        ActivityRange::Day => zone.weekday_text(start),
        ActivityRange::Week | ActivityRange::Month => zone.formatted(start, "%-d %b", "%-d %b"),
    }
}

fn values(activity: &Activity, zone: ShownZone) -> Markup {
    let from = format!("Each {} from", activity.range.period());
    let lag = |period: &AccountHour, percent| match period.lag_percentile(percent) {
        Some(class) => LAG_TEXTS[class],
        None => "–",
    };
    html! {
        (table::render(
            "",
            &[
                Text(&from),
                Number("Succeeded"),
                Number("Failed"),
                Number("Cancelled"),
                Number("Half began within"),
                Number("99 % began within"),
            ],
            &html! {
                @for period in &activity.periods {
                    tr {
                        td { (activity.range.clock(period.start, zone)) }
                        td.number { (period.succeeded) }
                        td.number { (period.failed) }
                        td.number { (period.cancelled) }
                        td.number { (lag(period, 50)) }
                        td.number { (lag(period, 99)) }
                    }
                }
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use chrono_tz::Tz;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn hour(start: &str, succeeded: u64, failed: u64) -> AccountHour {
        let lags = [succeeded, 0, 0, 0, 0, failed, 0, 0];
        AccountHour { succeeded, failed, lags, ..AccountHour::empty(at(start)) }
    }

    #[test]
    fn the_rate_is_rounded_down_and_leaves_out_cancelled_jobs() {
        let sum = AccountHour { cancelled: 7, ..hour("2026-11-26T06:00:00Z", 9_999, 1) };
        let text = totals(&sum);
        assert!(
            text.ends_with("7 cancelled. Success rate: 99.9 % (without the cancelled ones)."),
            "{text}"
        );
        let only = AccountHour { cancelled: 7, ..hour("2026-11-26T06:00:00Z", 0, 0) };
        assert_eq!(totals(&only), "0 succeeded, 0 failed, 7 cancelled.");
        assert!(totals(&hour("2026-11-26T06:00:00Z", 3, 0)).ends_with("rate: 100.0 %."));
    }

    #[test]
    fn charts_have_values_for_each_period_with_jobs() {
        let mut activity =
            Activity::empty(ActivityRange::Week, at("2026-11-26T08:30:00Z"), Tz::UTC);
        activity.add(&[hour("2026-11-26T05:00:00Z", 98, 2)]);
        let bars = outcomes(&activity, Tz::UTC.into()).into_string();
        let title = "<title>Thu 26 Nov, 00:00: 98 succeeded, 2 failed, 0 cancelled</title>";
        assert!(bars.contains(title) && bars.matches("<rect").count() == 2, "{bars}");
        let lags = lags_chart(&activity, Tz::UTC.into()).into_string();
        let title = "<title>Thu 26 Nov, 00:00: Half of them began within 10 ms, 99 % within 10 s.";
        assert!(lags.contains(title), "{lags}");
        assert!(lags.contains("class=\"prompt\"") && lags.contains("class=\"late\""), "{lags}");
        let table = values(&activity, Tz::UTC.into()).into_string();
        let on_12_hours = ShownZone { zone: Tz::UTC, has_12_hour_clock: true };
        let bars = outcomes(&activity, on_12_hours).into_string();
        assert!(bars.contains("<title>Thu 26 Nov, 12:00 AM: 98 succeeded"), "{bars}");
        assert_eq!(table.matches("<tr>").count(), 1 + 28, "{table}");
        assert!(table.contains("<td class=\"number\">10 s</td>"), "{table}");
    }
}
