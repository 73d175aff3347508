//! The visitor's display settings for times: the zone and the clock.

use chrono_tz::Tz;
use maud::{Markup, html};

use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::FormField;
use crate::dashboard::{DashboardParts, time, zones};
use crate::domain::user::TimeDisplay;

/// The field with the kind of zone, and its values.
pub(super) const KIND: &str = "zone";
pub(super) const BROWSER: &str = "browser";
pub(super) const UTC: &str = "utc";
const OWN: &str = "own";
const KINDS: [(&str, &str); 3] =
    [(BROWSER, "the time zone of the browser"), (UTC, "UTC"), (OWN, "the zone in the next field")];
/// The field with the clock, and its values.
pub(super) const CLOCK: &str = "clock";
pub(super) const OF_12_HOURS: &str = "12";
const CLOCKS: [(&str, &str); 2] = [("24", "24 hours: 17:40"), (OF_12_HOURS, "12 hours: 5:40 PM")];

/// Renders the form. `refused` has the input and the messages of a form that was refused.
pub(super) fn section(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    refused: Option<&(FormFields, FormMessages)>,
) -> Markup {
    let saved = (fields_of(visitor), FormMessages::default());
    let (fields, messages) = refused.unwrap_or(&saved);
    html! {
        h2 #times { "Your times" }
        p.soft {
            "Pages show you times like " (time::instant(dashboard.clock.now(), visitor.zone)) ", in "
            (visitor.zone.name()) ". Other members choose for themselves."
        }
        form method="post" action=(dashboard.path("/account/display")) {
            div.columns {
                (FormField::new(KIND, "Show times in", fields.text(KIND)).select(&KINDS, messages))
                (zones::field(dashboard, fields, messages))
                (FormField::new(CLOCK, "Clock", fields.text(CLOCK)).select(&CLOCKS, messages))
            }
            button.second type="submit" { "Save" }
        }
    }
}

/// Returns the fields of the current settings.
fn fields_of(visitor: &Visitor) -> FormFields {
    let TimeDisplay { zone, has_12_hour_clock } = visitor.visit.session.time_display;
    let kind = match zone {
        None => BROWSER,
        Some(Tz::UTC) => UTC,
        Some(_) => OWN,
    };
    let clock = if has_12_hour_clock { OF_12_HOURS } else { "24" };
    FormFields::of([(KIND, kind), (zones::FIELD, visitor.zone.name()), (CLOCK, clock)])
}
