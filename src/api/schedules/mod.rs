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
use crate::domain::schedule::Schedule;

/// Their routes.
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

/// The answer to the creation of a schedule, from its id.
pub(super) async fn created(api: &Api, account: AccountId, id: &str) -> Result<Response, ApiError> {
    Ok(create::answer(api, find(api, account, id).await?))
}

/// The answer to the creation of several schedules, from their ids.
pub(super) async fn created_bulk(
    api: &Api,
    account: AccountId,
    ids: &[String],
) -> Result<Response, ApiError> {
    let mut schedules = Vec::with_capacity(ids.len());
    for id in ids {
        schedules.push(find(api, account, id).await?);
    }
    Ok(create_bulk::answer(schedules))
}

/// The answer to a trigger, from the job's id.
pub(super) fn triggered(id: &str) -> Result<Response, ApiError> {
    Ok(trigger::answer(id.parse().map_err(|_| ApiError::answer_lost())?))
}

async fn find(api: &Api, account: AccountId, id: &str) -> Result<Schedule, ApiError> {
    let id = id.parse().map_err(|_| ApiError::answer_lost())?;
    Ok(api.schedules.get(account, id).await?)
}
