//! The change of the visitor's display settings for times.

use axum::extract::State;
use axum::response::Response;
use chrono_tz::Tz;

use super::display::{BROWSER, CLOCK, KIND, OF_12_HOURS, UTC};
use super::page::{AccountForms, render};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, shell, zones};
use crate::domain::cron::parse_timezone;
use crate::domain::user::TimeDisplay;

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    match read(&fields) {
        Ok(display) => {
            dashboard.users.set_time_display(&visitor.visit, display).await?;
            Ok(shell::redirect(&dashboard.path("/account#times")))
        }
        Err(messages) => {
            let forms =
                AccountForms { display: Some((fields, messages)), ..AccountForms::default() };
            Ok(shell::refused(render(&dashboard, &visitor, &forms).await?))
        }
    }
}

/// Reads the choice. The zone of the field counts only if it is chosen.
fn read(fields: &FormFields) -> Result<TimeDisplay, FormMessages> {
    let zone = match fields.text(KIND) {
        BROWSER => None,
        UTC => Some(Tz::UTC),
        _ => match parse_timezone(fields.text(zones::FIELD).trim()) {
            Ok(zone) => Some(zone),
            Err(error) => return Err(FormMessages::of_field(zones::FIELD, &error.to_string())),
        },
    };
    Ok(TimeDisplay { zone, has_12_hour_clock: fields.text(CLOCK) == OF_12_HOURS })
}
