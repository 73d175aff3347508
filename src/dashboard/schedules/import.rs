//! Importing schedules: the text, the preview of its schedules, and the button that creates them.
//! The preview sends the text again, so the service keeps nothing in between.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::cron_help::reading;
use super::input::refusal;
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::table::{self, Column::Text};
use crate::dashboard::text::sentence;
use crate::dashboard::upload::UploadFields;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, zones};
use crate::domain::alert::masked_url;
use crate::domain::user::Role;
use crate::schedules::{ImportEntry, ImportPreview, ImportText, ImportedSchedule, MAX_IMPORT};

/// The path of the page below the dashboard.
pub(super) const PATH: &str = "/schedules/import";
/// The maximum size of the form in bytes. A browser sends each line break of the text as CR LF.
pub(super) const MAX_BYTES: usize = 2 * MAX_IMPORT + (64 << 10);
/// The buttons of the preview.
const CREATE: &str = "create";
const EDIT: &str = "edit";

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let fields = FormFields::of([("timezone", visitor.zone.name())]);
    Ok(entry_page(&dashboard, &visitor, &fields, &FormMessages::default()))
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    UploadFields { fields, unreadable }: UploadFields,
) -> Result<Response, PageError> {
    let (account, call) = (visitor.account(), visitor.call()?);
    // The upload comes before it: a slow client would otherwise hold a permit that others need.
    let import = dashboard.imports.begin().await.ok_or_else(busy)?;
    if fields.has(EDIT) {
        return Ok(entry_page(&dashboard, &visitor, &fields, &FormMessages::default()));
    }
    if let Some(field) = unreadable.first() {
        let messages = FormMessages::of_field(field, "the file is not a text in UTF-8");
        return Ok(shell::refused(entry_page(&dashboard, &visitor, &fields, &messages)));
    }
    let text = Arc::new(import_text(&fields));
    let mut messages = FormMessages::default();
    if fields.has(CREATE) {
        match import.create(account, call, &text).await {
            Ok(_) => return Ok(redirect(&dashboard.path("/schedules"))),
            Err(error) => messages = refusal(error)?,
        }
    }
    match import.preview(account, &text).await {
        Ok(found) => {
            let page = preview(&dashboard, &visitor, (&text, &found), &messages);
            Ok(if fields.has(CREATE) { shell::refused(page) } else { page })
        }
        Err(error) => {
            let messages = refusal(error)?;
            Ok(shell::refused(entry_page(&dashboard, &visitor, &fields, &messages)))
        }
    }
}

fn busy() -> PageError {
    let why = "Other imports are in progress, so this one has not begun. Wait a few seconds, go back \
               and send the form again.";
    PageError::Busy(why.to_owned())
}

/// Returns the text of a form: that of the file, if one was chosen.
fn import_text(fields: &FormFields) -> ImportText {
    let file = Some(fields.text("file")).filter(|file| !file.is_empty());
    let text = file.unwrap_or_else(|| fields.text("text")).to_owned();
    ImportText { text, timezone: fields.text("timezone").trim().to_owned() }
}

fn entry_page(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    fields: &FormFields,
    messages: &FormMessages,
) -> Response {
    let content = html! {
        h1 { "Import schedules" }
        p {
            "Paste a text or choose a file. A preview shows the schedule of each line before the \
             schedules are created. The text is one of:"
        }
        ul {
            li { "JSON: an array as for the bulk API, or the lines of an account's export" }
            li {
                "a crontab with commands that call curl or wget, such as "
                code { "30 2 * * * curl -fsS -X POST https://example.com/report" }
            }
        }
        (general_message(messages))
        form method="post" enctype="multipart/form-data" action=(visitor.action(dashboard, PATH)) {
            (FormField::new("text", "Text", fields.text("text")).area(12, messages))
            (FormField::new("file", "Or a file", "")
                .hint("A chosen file replaces the text. At most 2 MiB and 1,000 schedules.")
                .input("file", messages))
            (zones::field(dashboard, fields, messages))
            p.hint {
                "The time zone applies to the lines of a crontab before the first "
                code { "CRON_TZ" } ". Fields that a line does not set have the defaults of a new \
                 schedule."
            }
            div.actions {
                button type="submit" { "Preview" }
                a.button.second href=(dashboard.path("/schedules")) { "Cancel" }
            }
        }
    };
    shell::page(dashboard, visitor, ("Schedules", "Import schedules"), &content)
}

fn preview(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (text, found): (&ImportText, &ImportPreview),
    messages: &FormMessages,
) -> Response {
    let ImportPreview { entries, without_effect } = found;
    let valid = entries.iter().filter(|entry| entry.schedule.is_ok()).count();
    let button = match valid {
        1 => "Create 1 schedule".to_owned(),
        valid => format!("Create {valid} schedules"),
    };
    let columns = [Text("Line or item"), Text("Name"), Text("Time"), Text("Request")];
    let content = html! {
        h1 { "Import schedules" }
        (general_message(messages))
        p {
            (valid) " of " (entries.len()) " can be imported. Nothing has been created yet."
        }
        @if let Some(line) = without_effect {
            p.hint {
                "Line " (line) " sets " code { "TZ" } ", which has no effect on the times: cron \
                 passes it to the commands. " code { "CRON_TZ" } " sets the time zone of the lines \
                 after it."
            }
        }
        (table::render("The schedule of each line or item", &columns, &html! {
            @for entry in entries { (row(entry)) }
        }))
        form method="post" enctype="multipart/form-data" action=(visitor.action(dashboard, PATH)) {
            input type="hidden" name="text" value=(text.text);
            input type="hidden" name="timezone" value=(text.timezone);
            div.actions.bulk {
                @if valid > 0 {
                    button type="submit" name=(CREATE) value="true" { (button) }
                }
                button.second type="submit" name=(EDIT) value="true" { "Change the text" }
                a.button.second href=(dashboard.path("/schedules")) { "Cancel" }
            }
        }
    };
    shell::page(dashboard, visitor, ("Schedules", "Import schedules"), &content)
}

fn row(entry: &ImportEntry) -> Markup {
    html! {
        tr {
            th scope="row" { (entry.number) }
            @match &entry.schedule {
                Ok(schedule) => { (cells(schedule)) }
                Err(messages) => {
                    td colspan="3" {
                        @for message in messages { p.message { (sentence(message)) } }
                    }
                }
            }
        }
    }
}

fn cells(schedule: &ImportedSchedule) -> Markup {
    html! {
        td {
            (schedule.name)
            @if !schedule.is_enabled { span.sub { "Paused" } }
        }
        td {
            (reading(&schedule.cron_expression))
            span.sub { code { (schedule.cron_expression) } " " (schedule.timezone) }
        }
        td { code { (schedule.http_method) " " (masked_url(&schedule.endpoint)) } }
    }
}
