//! The load of the next 24 hours as a chart: the runs in each quarter of an hour. While the
//! forecast is being computed, the page is shown without it, and asks for this part every second.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};

use crate::dashboard::chart::{self, ChartBar};
use crate::dashboard::shell::html_response;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::text::counted;
use crate::dashboard::time::ShownZone;
use crate::dashboard::visitor::{RENEWAL, Visitor};
use crate::dashboard::{Dashboard, DashboardParts, PageError};
use crate::domain::Timestamp;
use crate::schedules::Forecast;
use crate::store::Account;

/// The path of this part of the page.
const PATH: &str = "/load";

/// The length of a quarter of an hour, in minutes and in milliseconds.
const QUARTER: usize = 15;
const QUARTER_MS: i64 = 15 * 60_000;
/// The number of quarters that a chart has room for. 24 hours can begin within a quarter.
const QUARTERS: usize = 24 * 4 + 1;
/// The number of quarters between two times below the chart.
const TIME_STEP: usize = 4 * 6;

/// The runs of a quarter of an hour, of which the forecast may know only a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quarter {
    start: Timestamp,
    runs: u64,
    /// The runs in its busiest minute.
    most: u64,
}

/// The load of an account, as far as it is known.
pub(super) enum AccountLoad {
    /// The account is suspended, so nothing runs.
    Suspended,
    /// The forecast is being computed.
    Computing,
    Forecast(Arc<Forecast>),
}

impl AccountLoad {
    pub(super) async fn of(
        dashboard: &DashboardParts,
        account: &Account,
    ) -> Result<Self, PageError> {
        if account.suspended_at.is_some() {
            return Ok(Self::Suspended);
        }
        let forecast = dashboard.forecasts.of(account.id).await?;
        Ok(forecast.map_or(Self::Computing, Self::Forecast))
    }
}

/// Answers with the part of the page that shows the load.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    let account = visitor.load_account(&dashboard).await?;
    let load = AccountLoad::of(&dashboard, &account).await?;
    let part = part(&load, &dashboard.path(""), visitor.zone);
    Ok(html_response(StatusCode::OK, part))
}

/// Renders the load as a part of the page, which renews itself while it is not known. `overview` is
/// the path of the page.
pub(super) fn part(load: &AccountLoad, overview: &str, zone: ShownZone) -> Markup {
    match load {
        AccountLoad::Suspended => html! {},
        AccountLoad::Computing => html! {
            div hx-get={ (overview) (PATH) "?" (RENEWAL) } hx-trigger="every 1s" hx-swap="outerHTML" {
                h2 { "Load of the next 24 hours" }
                p.soft {
                    "The forecast is being computed."
                    noscript { " It is shown at the next visit." }
                }
            }
        },
        AccountLoad::Forecast(forecast) => chart(forecast, zone),
    }
}

/// Renders the chart, the busiest minute in words, and the values as a table.
fn chart(forecast: &Forecast, zone: ShownZone) -> Markup {
    html! {
        h2 { "Load of the next 24 hours" }
        @match forecast.peak() {
            None => { p.soft { "No schedule runs in the next 24 hours." } }
            Some(peak) => { (load(forecast, peak, zone)) }
        }
    }
}

fn load(forecast: &Forecast, (at, runs): (Timestamp, u64), zone: ShownZone) -> Markup {
    let quarters = quarters(forecast);
    html! {
        (bars(&quarters, zone))
        p.soft {
            "The busiest minute is " (zone.weekday_text(at)) " with " (counted(runs, "run")) "."
            @if let Some(most) = forecast.limited_to {
                " The forecast counts only the " (most) " most frequent combinations of cron \
                 expression and time zone."
            }
        }
        (chart::values("Load as a table", &values(&quarters, zone)))
    }
}

fn bars(quarters: &[Quarter], zone: ShownZone) -> Markup {
    let bar = |(position, quarter): (usize, &Quarter)| {
        let title = title(quarter, zone);
        ChartBar { class: "load", position, value: quarter.runs, title }
    };
    let bars: Vec<ChartBar> =
        quarters.iter().enumerate().filter(|(_, quarter)| quarter.runs > 0).map(bar).collect();
    let about = "Runs per 15 minutes in the next 24 hours. The table below has the values.";
    html! {
        (chart::bars(about, QUARTERS, &bars))
        div.axis aria-hidden="true" {
            @for quarter in quarters.iter().step_by(TIME_STEP) {
                span { (zone.weekday_text(quarter.start)) }
            }
        }
    }
}

fn values(quarters: &[Quarter], zone: ShownZone) -> Markup {
    html! {
        (table::render(
            "",
            &[Text("15 minutes from"), Number("Runs"), Number("Runs in the busiest minute")],
            &html! {
                @for quarter in quarters {
                    tr {
                        td { (zone.weekday_text(quarter.start)) }
                        td.number { (quarter.runs) }
                        td.number { (quarter.most) }
                    }
                }
            },
        ))
    }
}

/// Adds up the minutes of each quarter. The first and the last quarter may be cut.
fn quarters(forecast: &Forecast) -> Vec<Quarter> {
    let start = forecast.start.as_millis();
    let first = start - start.rem_euclid(QUARTER_MS);
    let known = usize::try_from((start - first) / 60_000).unwrap_or(0);
    let (head, rest) = forecast.runs.split_at((QUARTER - known).min(forecast.runs.len()));
    let starts = (0..).map(|position: i64| first + position * QUARTER_MS);
    let parts = std::iter::once(head).chain(rest.chunks(QUARTER));
    starts
        .zip(parts)
        .map(|(start, minutes)| Quarter {
            start: Timestamp::from_millis(start),
            runs: minutes.iter().sum(),
            most: minutes.iter().copied().max().unwrap_or(0),
        })
        .collect()
}

fn title(quarter: &Quarter, zone: ShownZone) -> String {
    let Quarter { start, runs, most } = *quarter;
    format!("{}: {}, at most {most} in a minute", zone.weekday_text(start), counted(runs, "run"))
}

#[cfg(test)]
mod tests {
    use chrono_tz::Tz;

    use super::*;

    fn forecast(start: &str, minutes: &[(usize, u64)]) -> Forecast {
        let mut runs = vec![0; 1_440];
        for (minute, count) in minutes {
            runs[*minute] = *count;
        }
        Forecast { start: start.parse().expect("an instant"), runs, limited_to: None }
    }

    #[test]
    fn quarters_begin_on_the_clock() {
        let cut = forecast("2026-11-26T08:10:00Z", &[(0, 2), (4, 3), (5, 4), (1_439, 9)]);
        let quarters = quarters(&cut);
        assert_eq!(quarters.len(), QUARTERS);
        let quarter = |position: usize| (quarters[position].runs, quarters[position].most);
        assert_eq!([0, 1, 2, QUARTERS - 1].map(quarter), [(5, 3), (4, 4), (0, 0), (9, 9)]);
        assert_eq!(quarters[0].start, "2026-11-26T08:00:00Z".parse().expect("an instant"));
        assert_eq!(quarters[1].start, "2026-11-26T08:15:00Z".parse().expect("an instant"));
        let whole = super::quarters(&forecast("2026-11-26T08:15:00Z", &[]));
        assert_eq!(whole.len(), QUARTERS - 1);
    }

    #[test]
    fn the_busiest_minute_is_named_in_the_zone_of_the_visitor() {
        let busy = forecast("2026-11-26T08:10:00Z", &[(5, 4), (6, 1)]);
        let page = chart(&busy, Tz::Europe__Berlin.into()).into_string();
        assert!(page.contains("The busiest minute is Thu 09:15 with 4 runs."), "{page}");
        assert!(page.contains("Thu 09:15: 5 runs, at most 4 in a minute"), "{page}");
        assert!(!page.contains("most frequent"), "{page}");
        let limited =
            Forecast { limited_to: Some(2_000), ..forecast("2026-11-26T08:10:00Z", &[(5, 1)]) };
        let page = chart(&limited, Tz::UTC.into()).into_string();
        assert!(page.contains("with 1 run. The forecast counts only the 2000 most"), "{page}");
        let none = forecast("2026-11-26T08:10:00Z", &[]);
        let none = chart(&none, Tz::UTC.into()).into_string();
        assert!(none.contains("No schedule runs") && !none.contains("svg"), "{none}");
    }

    #[test]
    fn a_forecast_that_is_being_computed_is_requested_again() {
        let of = |load| part(&load, "/base/dashboard", Tz::UTC.into()).into_string();
        let late = of(AccountLoad::Computing);
        assert!(late.contains("The forecast is being computed."), "{late}");
        assert!(late.contains("hx-get=\"/base/dashboard/load?renewal=true\""), "{late}");
        let known = of(AccountLoad::Forecast(Arc::new(forecast("2026-11-26T08:10:00Z", &[]))));
        assert!(known.contains("No schedule runs") && !known.contains("hx-get"), "{known}");
        assert_eq!(of(AccountLoad::Suspended), "");
    }
}
