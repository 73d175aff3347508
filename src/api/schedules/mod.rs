//! The endpoints of schedules.

mod create;
mod create_bulk;
mod get;
mod list;
mod preview;
mod record;
mod remove;
mod skips;
mod toggle;
mod trigger;
mod update;

pub(in crate::api) use record::ScheduleRecord;
pub(in crate::api) use skips::SkipRecord;

use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Api, ApiError, SharedApi};
use crate::domain::AccountId;
use crate::schedules::{CommandError, ScheduleBatch};

/// Returns the routes of schedules.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_schedules, create::create_schedule))
        .routes(routes!(create_bulk::create_schedules))
        .routes(routes!(preview::preview_schedule))
        .routes(routes!(
            get::get_schedule,
            update::put_schedule,
            update::patch_schedule,
            remove::delete_schedule
        ))
        .routes(routes!(toggle::toggle_schedule))
        .routes(routes!(trigger::trigger_schedule))
        .routes(routes!(skips::list_skips))
}

/// Rebuilds the answer to the creation of a schedule from its id. The answer is lost if the
/// schedule was deleted since.
pub(super) async fn created(api: &Api, account: AccountId, id: &str) -> Result<Response, ApiError> {
    let id = id.parse().map_err(|_| ApiError::answer_lost())?;
    match api.schedules.get(account, id).await {
        Ok(schedule) => Ok(create::answer(api, schedule)),
        Err(CommandError::NoSuchSchedule) => Err(ApiError::answer_lost()),
        Err(error) => Err(error.into()),
    }
}

/// Rebuilds the answer to the creation of several schedules from their ids and the request body. It
/// equals the first answer even if the schedules were changed or deleted since.
pub(super) fn created_bulk(ids: &[String], body: &[u8]) -> Result<Response, ApiError> {
    let ids = ids.iter().map(|id| id.parse()).collect::<Result<Vec<_>, _>>();
    let names = ScheduleBatch::parse(body)?.names();
    match (ids, names) {
        (Ok(ids), Some(names)) if ids.len() == names.len() => {
            Ok(create_bulk::answer(ids.into_iter().zip(names)))
        }
        _ => Err(ApiError::answer_lost()),
    }
}

/// Rebuilds the answer to a trigger from the job's id.
pub(super) fn triggered(id: &str) -> Result<Response, ApiError> {
    Ok(trigger::answer(id.parse().map_err(|_| ApiError::answer_lost())?))
}
