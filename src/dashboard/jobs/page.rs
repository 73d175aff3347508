//! The page of one job, and the changes that it offers: retry and cancel.

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::advice::failure;
use super::figures::{span, start_lag};
use super::{attempts, exchange};
use crate::dashboard::address::api_address;
use crate::dashboard::form::FormFields;
use crate::dashboard::question::{Question, is_sure};
use crate::dashboard::visitor::{RENEWAL, Visitor};
use crate::dashboard::{
    Dashboard, DashboardParts, PageError, id_of, question, shell, time, widgets,
};
use crate::domain::JobId;
use crate::domain::user::Role;
use crate::schedules::{CommandError, WatchedJob};

/// The event of the script by which the page of an unfinished job loads itself again.
const AGAIN: &str = "refresh";

fn path_of(dashboard: &DashboardParts, id: JobId) -> String {
    dashboard.path(&format!("/jobs/{id}"))
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let (account, id) = (visitor.account(), id_of(&id)?);
    let shown = match dashboard.schedules.shown_job(account, id).await {
        Err(CommandError::NoSuchJob) => return elsewhere(&dashboard, &visitor, id).await,
        found => found?,
    };
    let title = format!("Job of {}", shown.schedule.as_deref().unwrap_or("a deleted schedule"));
    let JobFragment { html: job, .. } = fragment(&dashboard, &visitor, &shown);
    let api = api_address(&dashboard, &headers);
    let content = html! {
        (job)
        (widgets::curl("Read the job with curl", &format!(
            "curl -s '{api}/jobs/{id}' -H 'x-api-key: YOUR_KEY'"
        )))
    };
    Ok(shell::page(&dashboard, &visitor, ("Jobs", title.as_str()), &content))
}

/// Redirects to a job of another account of the user. Links in alerts do not name the account.
async fn elsewhere(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    id: JobId,
) -> Result<Response, PageError> {
    for other in visitor.memberships.iter().filter(|one| one.account != visitor.account()) {
        match dashboard.schedules.job(other.account, id).await {
            Ok(_) => return Ok(shell::switch_account(other.account, &path_of(dashboard, id))),
            Err(CommandError::NoSuchJob) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(PageError::NotFound)
}

/// Runs the schedule of a finished job again, and shows the new job.
pub(super) async fn retry(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let (account, call) = (visitor.account(), visitor.call()?);
    let job = match dashboard.schedules.retry_job(account, call, id_of(&id)?).await {
        Ok(job) => job,
        Err(CommandError::NoSuchSchedule) => {
            let why = "The schedule of this job was deleted, so the job cannot run again.";
            return Err(PageError::Refused(why.to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(shell::redirect(&path_of(&dashboard, job)))
}

/// Cancels a job after a question. If it has finished in the meantime, its page says how it ended.
pub(super) async fn cancel(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (id, call) = (id_of(&id)?, visitor.call()?);
    if !is_sure(&fields) {
        return ask_to_cancel(&dashboard, &visitor, id).await;
    }
    match dashboard.schedules.cancel_job(visitor.account(), call, id).await {
        Ok(_) | Err(CommandError::JobFinished) => Ok(shell::redirect(&path_of(&dashboard, id))),
        Err(error) => Err(error.into()),
    }
}

/// Asks for confirmation before a job is cancelled, which cannot be undone.
async fn ask_to_cancel(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    id: JobId,
) -> Result<Response, PageError> {
    let shown = dashboard.schedules.shown_job(visitor.account(), id).await?;
    if shown.job.status.is_final() {
        return Ok(shell::redirect(&path_of(dashboard, id)));
    }
    let name = shown.schedule.as_deref().unwrap_or("a deleted schedule");
    let page = format!("/jobs/{id}");
    let question = Question {
        entry: "Jobs",
        title: &format!("Cancel the job of {name}?"),
        text: "It ends as failed and gets no further attempt. A request that is being sent is \
               aborted; the target may have acted on it already. This cannot be undone.",
        page: &format!("{page}/cancel"),
        fields: &[],
        button: "Cancel the job",
        keep: ("Let it run", &page),
    };
    Ok(question::ask(dashboard, visitor, &question))
}

/// The part of the page that shows the job. While the job is not final, the script replaces it.
pub(super) struct JobFragment {
    /// The digest of its content.
    pub(super) version: String,
    pub(super) html: Markup,
}

/// Renders the part of the page that shows the job. The content depends on the job and the visitor
/// but not on a clock, so it does not change by itself.
pub(super) fn fragment(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    shown: &WatchedJob,
) -> JobFragment {
    let job = &shown.job;
    let path = path_of(dashboard, job.id);
    let content = html! {
        (head(dashboard, visitor, shown))
        @if !job.status.is_final() {
            noscript { p { "The job has not finished. " a href=(path) { "Refresh" } } }
        }
        (facts(dashboard, visitor, shown))
        @if let Some(code) = job.error_code {
            (failure(code, job.error_message.as_deref()))
            @if shown.schedule.is_some() && visitor.may(Role::Member) {
                p {
                    a href=(dashboard.path(&format!("/schedules/{}/alerts", job.schedule_id))) {
                        "Set up alerts for failures of this schedule"
                    }
                }
            }
        }
        @if !shown.attempts.is_empty() {
            h2 { "Attempts" }
            (attempts::table(&shown.attempts, visitor.zone))
        }
        (exchange::response(job))
        (exchange::request(job))
    };
    let version = digest(&content);
    let html = if job.status.is_final() {
        html! { div #job { (content) } }
    } else {
        html! {
            div #job data-events={ (path) "/events?seen=" (version) } hx-get={ (path) "?" (RENEWAL) }
                hx-trigger=(AGAIN) hx-select="#job" hx-swap="outerHTML" { (content) }
        }
    };
    JobFragment { version, html }
}

fn digest(content: &Markup) -> String {
    let digest = Sha256::digest(content.0.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn head(dashboard: &DashboardParts, visitor: &Visitor, shown: &WatchedJob) -> Markup {
    let job = &shown.job;
    let path = path_of(dashboard, job.id);
    let may_change = visitor.may(Role::Member);
    html! {
        div.head {
            h1 {
                "Job of " (shown.schedule.as_deref().unwrap_or("a deleted schedule")) " "
                (widgets::status(job.status))
            }
            @if may_change {
                div.actions {
                    @if !job.status.is_final() {
                        (widgets::action(&format!("{path}/cancel"), "Cancel job", "danger"))
                    } @else if shown.schedule.is_some() {
                        (widgets::action(&format!("{path}/retry"), "Retry job", "second"))
                    }
                }
            }
        }
    }
}

fn facts(dashboard: &DashboardParts, visitor: &Visitor, shown: &WatchedJob) -> Markup {
    let (job, zone) = (&shown.job, visitor.zone);
    let schedule = dashboard.path(&format!("/schedules/{}", job.schedule_id));
    html! {
        dl.facts {
            div {
                dt { "Schedule" }
                dd {
                    @match &shown.schedule {
                        Some(name) => { a href=(schedule) { (name) } }
                        None => { "Deleted " code { (job.schedule_id) } }
                    }
                }
            }
            div { dt { "Trigger" } dd { (widgets::trigger_name(job.trigger)) } }
            div { dt { "Scheduled" } dd { (time::instant(job.scheduled_run_at, zone)) } }
            div { dt { "Start lag" } dd { (start_lag(job).as_deref().unwrap_or("–")) } }
            div { dt { "Duration of the last attempt" } dd { (span(job.duration_ms)) } }
            div { dt { "Attempts" } dd { (job.attempt_number) " of " (job.max_attempts) } }
            @if let Some(next) = job.next_attempt_at {
                div { dt { "Next attempt" } dd { (time::instant(next, zone)) } }
            }
            @if let Some(completed) = job.completed_at {
                div { dt { "Finished" } dd { (time::instant(completed, zone)) } }
            }
            div { dt { "Id" } dd { code { (job.id) } } }
        }
    }
}
