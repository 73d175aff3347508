//! `Idempotency-Key` on any POST: the first answer is stored and returned again for a repeated
//! call.
//!
//! Answers that depend on the moment (401, 429, 5xx) are not stored, so the call can be repeated.
//! All others are, including the 403 for a call that the plan does not allow. The scope of the API
//! key is checked before: a read-only key neither stores nor receives the answer to a change.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Api, ApiError, body, channels, deliveries, jobs, schedules};
use crate::accounts::Caller;
use crate::domain::AccountId;
use crate::domain::audit::Action;
use crate::domain::call::{Idempotency, IdempotencyKey};
use crate::domain::key::Scope;
use crate::runtime::TaskKind;
use crate::store::{Receipt, Reserved};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The maximum length of a key, in characters.
const MAX_KEY_CHARS: usize = 255;
/// The headers that are stored with an answer. All others depend on the moment.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ALLOW];

/// Answers an admitted call. If it carries an idempotency key, the state of the key decides whether
/// the call runs.
pub(super) async fn answer(
    api: &Arc<Api>,
    mut request: Request,
    next: Next,
    caller: Caller,
    limit: usize,
) -> Response {
    let path = request.uri().path();
    // A read-only key may preview, which changes nothing. The routes refuse its other POSTs.
    let is_refused = caller.scope == Scope::Read && path != api.preview_path;
    if request.method() != Method::POST || is_refused {
        return next.run(request).await;
    }
    let key = match key(request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(key)) => IdempotencyKey::new(caller.account, "POST", path, key),
        Err(error) => return error.into_response(),
    };
    let body = match body::read_and_keep(request.extensions_mut(), limit).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    let (runs, account) = (api.clone(), caller.account);
    let answered = api.tasks.spawn(TaskKind::Command, async move {
        let answered = reserve(&runs, request, next, account, key, &body).await;
        answered.unwrap_or_else(|error| error.into_response())
    });
    match answered.await {
        Ok(Some(response)) => response,
        _ if api.tasks.aborting().is_cancelled() => {
            ApiError::unavailable("the process is stopping").into_response()
        }
        _ => ApiError::internal("the request's handler panicked").into_response(),
    }
}

/// Returns the client's idempotency key, if there is one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut given = headers.get_all(HEADER).into_iter();
    let Some(first) = given.next() else { return Ok(None) };
    let refuse = |why| Err(ApiError::invalid(json!({ "Idempotency-Key": [why] })));
    match first.to_str() {
        _ if given.next().is_some() => refuse("Must be given once"),
        Err(_) => refuse("Must be ASCII characters"),
        Ok(key) if !(1..=MAX_KEY_CHARS).contains(&key.len()) => {
            refuse("Must be 1 to 255 characters")
        }
        Ok(key) => Ok(Some(key)),
    }
}

/// Runs the call if it holds the key, and stores its answer. It is a task of its own: a client that
/// disconnects or times out can repeat the call to get the answer.
async fn reserve(
    api: &Api,
    mut request: Request,
    next: Next,
    account: AccountId,
    key: IdempotencyKey,
    body: &[u8],
) -> Result<Response, ApiError> {
    let (idempotency, reserved) =
        api.accounts.reserve(account, key, Sha256::digest(body).into()).await?;
    match reserved {
        Reserved::Yours => {
            request.extensions_mut().insert(idempotency);
            let response = next.run(request).await;
            Ok(finish(api, account, idempotency, response).await)
        }
        Reserved::Answered(kept) => given_again(&kept),
        Reserved::Unanswered(receipt) => {
            let bulk = (request.uri().path() == api.bulk_path).then_some(body);
            let rebuilt = rebuilt(api, account, receipt, bulk).await;
            let response = rebuilt.unwrap_or_else(|error| error.into_response());
            Ok(finish(api, account, idempotency, response).await)
        }
        Reserved::Running => Err(ApiError::in_progress()),
        Reserved::Reused => Err(ApiError::conflict(
            "IDEMPOTENCY_KEY_REUSED",
            "The idempotency key was used for another request",
        )),
    }
}

/// An answer in its stored form.
#[derive(Deserialize, Serialize)]
struct StoredAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Stores the answer, or releases the key if the call can be repeated.
async fn finish(
    api: &Api,
    account: AccountId,
    idempotency: Idempotency,
    response: Response,
) -> Response {
    let status = response.status();
    let passing = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS);
    if passing || status.is_server_error() {
        if let Err(error) = api.accounts.release(account, idempotency).await {
            tracing::warn!(%error, "idempotency key not released, it expires within a minute");
        }
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return ApiError::internal(error.to_string()).into_response(),
    };
    let of_answer = |name: &HeaderName| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some((name.to_string(), value.to_owned()))
    };
    let kept = StoredAnswer {
        status: status.as_u16(),
        headers: KEPT.iter().filter_map(of_answer).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let kept = serde_json::to_string(&kept).expect("texts and numbers have a JSON form");
    if let Err(error) = api.accounts.keep_answer(account, idempotency, &kept).await {
        tracing::warn!(%error, "answer not stored for its idempotency key");
    }
    Response::from_parts(parts, body.into())
}

fn given_again(kept: &str) -> Result<Response, ApiError> {
    let damaged = || ApiError::internal("a stored answer cannot be parsed");
    let kept: StoredAnswer = serde_json::from_str(kept).map_err(|_| damaged())?;
    let mut response = Response::new(kept.body.into());
    *response.status_mut() = StatusCode::from_u16(kept.status).map_err(|_| damaged())?;
    for (name, value) in &kept.headers {
        let name = HeaderName::try_from(name).map_err(|_| damaged())?;
        let value = HeaderValue::try_from(value).map_err(|_| damaged())?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// Rebuilds the answer to a call that took effect but has no stored answer, from the objects that
/// it changed. Bulk creation also needs the body, which is the same in the repeated call.
async fn rebuilt(
    api: &Api,
    account: AccountId,
    receipt: Receipt,
    bulk: Option<&[u8]>,
) -> Result<Response, ApiError> {
    let Receipt { action, objects } = receipt;
    let one = || objects.first().map_or("", String::as_str);
    match (action, bulk) {
        (Action::ScheduleCreated, Some(body)) => schedules::created_bulk(&objects, body),
        (Action::ScheduleCreated, None) => schedules::created(api, account, one()).await,
        (Action::ScheduleTriggered, _) => schedules::triggered(one()),
        (Action::JobRetried, _) => jobs::retried(one()),
        (Action::JobCancelled, _) => jobs::cancelled(api, account, one()).await,
        (Action::ChannelCreated, _) => channels::created(api, account, one()).await,
        (Action::ChannelVerified, _) => channels::verified(api, account, one()).await,
        (Action::AlertRedelivered, _) => deliveries::redelivered(api, account, one()).await,
        // A generated secret is shown only in the first answer, which was lost.
        _ => Err(ApiError::answer_lost()),
    }
}
