//! The page of an account without schedules: one question, and then the first run.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use crate::accounts::AccountOverview;
use crate::dashboard::form::{FormFields, FormMessages, request};
use crate::dashboard::schedules::refusal;
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{FormField, account_notes, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError};
use crate::domain::user::Role;
use crate::schedules::ScheduleCreation;

/// The answers to "how often", with their cron expressions. Five minutes is suggested.
const EVERY: [(&str, &str); 4] = [
    ("* * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("0 * * * *", "Every hour"),
    ("0 9 * * *", "Every day at 09:00"),
];
const SUGGESTED: &str = "*/5 * * * *";

/// Renders the question. In a suspended account nothing can be created, so its page says that.
pub(super) fn page(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    overview: &AccountOverview,
) -> Response {
    if overview.account.suspended_at.is_some() {
        let content = html! {
            h1 { "Overview" }
            (account_notes(visitor, overview))
        };
        return shell::page(dashboard, visitor, ("Overview", "Overview"), &content);
    }
    let fields = FormFields::of([("cronExpression", SUGGESTED)]);
    shown(dashboard, visitor, &fields, &FormMessages::default())
}

/// Creates the schedule, runs it at once and shows that job.
pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (call, endpoint) = (visitor.call()?, fields.text("endpoint").trim());
    let creation: ScheduleCreation = request(&json!({
        "name": name_of(endpoint),
        "endpoint": endpoint,
        "httpMethod": "GET",
        "cronExpression": fields.text("cronExpression"),
        "timezone": visitor.zone.name(),
    }))?;
    match dashboard.schedules.create(visitor.account(), call, creation).await {
        Ok(schedule) => {
            let job = dashboard.schedules.trigger(visitor.account(), call, schedule.id).await?;
            Ok(redirect(&dashboard.path(&format!("/jobs/{job}"))))
        }
        Err(error) => Ok(shell::refused(shown(&dashboard, &visitor, &fields, &refusal(error)?))),
    }
}

/// Returns the name of a schedule without a given name: the host of its URL.
fn name_of(endpoint: &str) -> String {
    let host = url::Url::parse(endpoint).ok();
    let host = host.as_ref().and_then(url::Url::host_str).filter(|host| !host.is_empty());
    host.unwrap_or("First schedule").to_owned()
}

fn shown(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    fields: &FormFields,
    messages: &FormMessages,
) -> Response {
    let content = if visitor.may(Role::Member) {
        question(dashboard, visitor, fields, messages)
    } else {
        html! {
            h1 { "Nothing runs yet" }
            p { "A member or an owner of this account can create its first schedule." }
        }
    };
    shell::page(dashboard, visitor, ("Overview", "Overview"), &content)
}

fn question(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    html! {
        h1 { "Which URL should be called, and how often?" }
        p.soft { "The first run starts immediately, so that you can see it." }
        (general_message(messages))
        form.first method="post" action=(visitor.action(dashboard, "/first")) {
            (FormField::new("endpoint", "URL", fields.text("endpoint"))
                .hint("For example https://example.com/health. It is called with GET.")
                .required().input("url", messages))
            (FormField::new("cronExpression", "How often", fields.text("cronExpression"))
                .select(&EVERY, messages))
            p.hint { "Times are in the time zone " (visitor.zone.name()) "." }
            div.actions {
                button type="submit" { "Create and run" }
                a href=(dashboard.path("/schedules/new")) { "More settings" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_names_the_schedule() {
        assert_eq!(name_of("https://api.example.com/a?b"), "api.example.com");
        assert_eq!(name_of("example.com"), "First schedule");
        assert_eq!(name_of(""), "First schedule");
    }

    #[test]
    fn every_choice_is_an_expression() {
        for (expression, _) in EVERY {
            assert!(crate::domain::cron::Cron::parse(expression).is_ok(), "{expression}");
        }
        assert!(EVERY.iter().any(|(expression, _)| *expression == SUGGESTED));
    }
}
