//! The meaning of a cron expression: in words, as next runs and with warnings; or the error.

use axum::extract::State;
use axum::response::Response;
use chrono_tz::Tz;
use http::StatusCode;
use maud::{Markup, html};
use serde_json::json;

use crate::dashboard::form::{FormFields, request};
use crate::dashboard::shell::html_response;
use crate::dashboard::table::{self, Column::Text};
use crate::dashboard::text::sentence;
use crate::dashboard::time::ShownZone;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, time, zones};
use crate::domain::cron::{self, Cron, FutureRun, parse_timezone};
use crate::schedules::PreviewRequest;

/// Answers with the part of a page that the script puts below the expression.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    Ok(html_response(StatusCode::OK, explain(&dashboard, &visitor, &fields)?))
}

/// Renders the meaning of an expression.
pub(super) fn explain(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    fields: &FormFields,
) -> Result<Markup, PageError> {
    let expression = fields.text("cronExpression").trim();
    let timezone = fields.text(zones::FIELD).trim();
    if expression.is_empty() {
        return Ok(html! {
            p.hint {
                "Five fields: minute, hour, day of month, month, day of week. "
                code { "30 9 * * MON-FRI" } " is 09:30 from Monday to Friday."
            }
        });
    }
    if let Err(error) = Cron::parse(expression) {
        let reason = format!("not a cron expression: {}", error.reason(expression));
        return Ok(html! { p.message { (sentence(&reason)) } });
    }
    let Ok(zone) = parse_timezone(timezone) else {
        return Ok(html! {
            p.message { "To see runs, choose a time zone. " (zones::advice(timezone)) }
        });
    };
    let question = json!({ "cronExpression": expression, "timezone": timezone });
    let preview = dashboard.schedules.preview(request::<PreviewRequest>(&question)?)?;
    Ok(html! {
        p { strong { (sentence(&preview.description)) } }
        @for warning in &preview.warnings { p.note { (warning) } }
        (runs(&preview.runs, visitor.zone.in_zone(zone)))
    })
}

/// Renders runs in a zone and in UTC, with the effects of clock changes.
pub(super) fn runs(runs: &[FutureRun], zone: ShownZone) -> Markup {
    let has_notes = runs.iter().any(|run| run.note.is_some());
    let is_utc = zone.zone == Tz::UTC;
    let local = format!("Next runs, {}", zone.name());
    let mut columns = vec![Text(&local)];
    columns.extend((!is_utc).then_some(Text("UTC")));
    columns.extend(has_notes.then_some(Text("Clock change")));
    table::render(
        "Next runs",
        &columns,
        &html! {
            @for run in runs {
                tr {
                    td { (time::instant(run.utc, zone)) }
                    @if !is_utc { td { (time::instant(run.utc, zone.in_zone(Tz::UTC))) } }
                    @if has_notes { td { (run.note.as_deref().unwrap_or_default()) } }
                }
            }
        },
    )
}

/// Returns the meaning of an expression as a sentence; empty if it is no expression.
pub(super) fn reading(expression: &str) -> String {
    Cron::parse(expression).map(|cron| cron::describe(&cron)).unwrap_or_default()
}
