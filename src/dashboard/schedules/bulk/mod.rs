//! Enables, pauses or deletes many schedules of the list: those that are selected on a page of it,
//! or all that match its filters.
//!
//! Invariants:
//! - A request acts on at most [`step::MAX_SCHEDULES`] schedules. If more remain, its answer has a
//!   form that continues the action; the script submits it. The form carries the position and the
//!   counts along.
//! - The filters are evaluated by the list's query while the action runs. So the action changes
//!   exactly the schedules that match then, even if the confirmation page showed another number.
//!
//! On failure: schedules that were changed stay changed. The page says how many these are and why
//! others were not changed. The same action can be repeated.

mod action;
mod pages;
mod report;
mod step;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use action::{BulkAction, BulkTargets};
use report::BulkReport;

use super::list;
use super::view::ListView;
use crate::dashboard::form::FormFields;
use crate::dashboard::question::is_sure;
use crate::dashboard::shell::redirect;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError};

/// Redirects the address of an answer, which a browser may load again, to the list.
pub(super) async fn show(State(dashboard): State<Dashboard>) -> Response {
    redirect(&ListView::default().address(&dashboard))
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let call = visitor.call()?;
    let (view, targets) = (ListView::read(&fields), BulkTargets::read(&fields)?);
    let Ok(action) = fields.text("action").parse::<BulkAction>() else {
        return Ok(redirect(&view.address(&dashboard)));
    };
    let is_question = targets.is_all_matching() || action == BulkAction::Delete;
    if is_question && !is_sure(&fields) {
        return pages::ask(&dashboard, &visitor, (action, &targets), &view).await;
    }
    let mut report = BulkReport::read(&fields);
    let rest = step::run(&dashboard, &visitor, call, (action, targets, &view), &mut report).await?;
    if let Some(rest) = rest {
        return Ok(pages::unfinished(&dashboard, &visitor, (action, &rest), &view, &report));
    }
    let note = pages::result(&dashboard, &visitor, action, &view, &report);
    list::render(&dashboard, &visitor, &headers, (&view, &note)).await
}
