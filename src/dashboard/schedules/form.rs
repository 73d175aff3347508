//! The form that creates a schedule and the one that changes it.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use maud::{Markup, html};

use super::test_panel::{self, TestAnswer};
use super::{controls, cron_help, input, path_of};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::shell::{self, html_response, redirect};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::general_message;
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of};
use crate::domain::schedule::{Schedule, UnreadableFields};
use crate::domain::user::Role;
use crate::schedules::TestedSchedule;

/// The name of the button that shows the next runs without saving.
const SHOW_RUNS: &str = "show-runs";
/// The field with the revision of the schedule that the form shows.
const REVISION: &str = "revision";
/// The id of the form.
const FORM: &str = "schedule-form";
/// The message if the schedule has changed since the form was shown.
const OUTDATED: &str = "The schedule was changed while this form was open. Open the form again";

/// A form with its input and the messages beside it.
struct ScheduleForm<'a> {
    /// The schedule to change; absent for a new one.
    schedule: Option<&'a Schedule>,
    fields: &'a FormFields,
    messages: &'a FormMessages,
    /// The result of a test request.
    test: Option<Markup>,
}

pub(super) async fn new(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let (fields, messages) = (input::blank(visitor.zone), FormMessages::default());
    ScheduleForm::new(None, &fields, &messages).page(&dashboard, &visitor)
}

pub(super) async fn create(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    asked: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let call = visitor.call()?;
    let mut messages = FormMessages::default();
    if fields.has(test_panel::BUTTON) {
        let tested = TestedSchedule::New(input::creation(&fields)?);
        let form = ScheduleForm::new(None, &fields, &messages);
        return form.test(&dashboard, &visitor, &asked, tested).await;
    }
    if !fields.has(SHOW_RUNS) {
        let request = input::creation(&fields)?;
        match dashboard.schedules.create(visitor.account(), call, request).await {
            Ok(schedule) => return Ok(redirect(&path_of(&dashboard, schedule.id))),
            Err(error) => messages = input::refusal(error)?,
        }
    }
    ScheduleForm::new(None, &fields, &messages).answer(&dashboard, &visitor)
}

pub(super) async fn edit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let schedule = dashboard.schedules.get(visitor.account(), id_of(&id)?).await?;
    let (fields, messages) = (input::of_schedule(&schedule), FormMessages::default());
    ScheduleForm::new(Some(&schedule), &fields, &messages).page(&dashboard, &visitor)
}

pub(super) async fn update(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    asked: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (call, id) = (visitor.call()?, id_of(&id)?);
    let schedule = dashboard.schedules.get(visitor.account(), id).await?;
    let mut messages = FormMessages::default();
    if fields.has(test_panel::BUTTON) {
        let tested = TestedSchedule::Changed(id, input::update(&fields, &schedule)?);
        let form = ScheduleForm::new(Some(&schedule), &fields, &messages);
        return form.test(&dashboard, &visitor, &asked, tested).await;
    }
    // The form has all fields, so an outdated one would undo the changes of others.
    if fields.text(REVISION) != schedule.revision.to_string() {
        messages = FormMessages::general(OUTDATED);
    } else if !fields.has(SHOW_RUNS) {
        let request = input::update(&fields, &schedule)?;
        match dashboard.schedules.update(visitor.account(), call, id, request).await {
            Ok(_) => return Ok(redirect(&path_of(&dashboard, id))),
            Err(error) => messages = input::refusal(error)?,
        }
    }
    ScheduleForm::new(Some(&schedule), &fields, &messages).answer(&dashboard, &visitor)
}

impl<'a> ScheduleForm<'a> {
    fn new(
        schedule: Option<&'a Schedule>,
        fields: &'a FormFields,
        messages: &'a FormMessages,
    ) -> Self {
        Self { schedule, fields, messages, test: None }
    }

    /// Sends the request of the form once, and shows the result on the form. The script gets only
    /// the panel, or the form if its input is not valid.
    async fn test(
        self,
        dashboard: &DashboardParts,
        visitor: &Visitor,
        asked: &HeaderMap,
        tested: TestedSchedule,
    ) -> Result<Response, PageError> {
        let by_script = asked.contains_key("hx-request");
        match test_panel::run(dashboard, visitor, tested).await? {
            TestAnswer::Panel(panel) if by_script => Ok(html_response(StatusCode::OK, panel)),
            TestAnswer::Panel(panel) => Self { test: Some(panel), ..self }.page(dashboard, visitor),
            TestAnswer::Invalid(messages) => {
                let form = ScheduleForm { messages: &messages, ..self };
                let page = form.page(dashboard, visitor)?;
                Ok(if by_script { in_place_of_the_form(page) } else { shell::refused(page) })
            }
        }
    }

    /// Returns the page after a submission: or with the next runs.
    fn answer(&self, dashboard: &DashboardParts, visitor: &Visitor) -> Result<Response, PageError> {
        let page = self.page(dashboard, visitor)?;
        Ok(if self.fields.has(SHOW_RUNS) { page } else { shell::refused(page) })
    }

    fn page(&self, dashboard: &DashboardParts, visitor: &Visitor) -> Result<Response, PageError> {
        let help = cron_help::explain(dashboard, visitor, self.fields)?;
        let content = self.content(dashboard, visitor, &help);
        let title = if self.schedule.is_some() { "Edit schedule" } else { "New schedule" };
        Ok(shell::page(dashboard, visitor, ("Schedules", title), &content))
    }

    fn content(&self, dashboard: &DashboardParts, visitor: &Visitor, help: &Markup) -> Markup {
        let Self { schedule, fields, messages, .. } = *self;
        let (title, button, back) = match schedule {
            Some(schedule) => {
                let title = format!("Edit {}", schedule.name);
                (title, "Save", path_of(dashboard, schedule.id))
            }
            None => {
                let list = dashboard.path("/schedules");
                ("New schedule".to_owned(), "Create schedule", list)
            }
        };
        let action = match schedule {
            Some(_) => format!("{back}/edit"),
            None => visitor.action(dashboard, "/schedules/new"),
        };
        // An outdated form stays outdated, whatever the schedule is by then.
        let revision = schedule.map(|schedule| schedule.revision.to_string());
        let shown = Some(fields.text(REVISION)).filter(|shown| !shown.is_empty());
        let revision = shown.map(str::to_owned).or(revision);
        let lost = schedule.map_or_else(UnreadableFields::default, |schedule| schedule.unreadable);
        html! {
            h1 { (title) }
            (general_message(messages))
            form id=(FORM) method="post" action=(action) {
                // The Enter key presses the first button of a form, so that one has to save.
                button.hidden type="submit" tabindex="-1" aria-hidden="true" { (button) }
                @if let Some(revision) = revision {
                    input type="hidden" name=(REVISION) value=(revision);
                }
                (controls::name(fields, messages))
                (controls::request(fields, messages, lost))
                (controls::timing(dashboard, fields, messages, help))
                (controls::rules(dashboard, fields, messages))
                div.actions {
                    button type="submit" { (button) }
                    (test_panel::button(&action))
                    a.button.second href=(back) { "Cancel" }
                }
                (test_panel::container(self.test.as_ref()))
            }
        }
    }
}

/// Marks a page as an answer to the script, which replaces the present form with that of the page.
fn in_place_of_the_form(page: Response) -> Response {
    let form = format!("#{FORM}");
    let headers =
        [("hx-retarget", form.as_str()), ("hx-reselect", &form), ("hx-reswap", "outerHTML")];
    (headers, page).into_response()
}
