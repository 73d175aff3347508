//! The outermost layer, which every request passes.
//!
//! It assigns the request id, admits or refuses the request (API key first, then rate limit, then
//! everything else), bounds its time, contains its panics, completes its answer and logs it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use tracing::field::display;

use super::authentication::{self, RefusalWording};
use super::body::{BULK_LIMIT, USUAL_LIMIT, UnreadBody};
use super::error::InternalCause;
use super::request_id::{self, RequestId};
use super::{Api, ApiError, idempotency, limits};
use crate::domain::{AccountId, Timestamp};
use crate::queue::WindowState;
use crate::runtime::{ClientAddress, Clock, Mutex};
use crate::telemetry::metrics::{HTTP_REQUESTS, HTTP_SECONDS, HttpAnswer, HttpRoute};
use crate::telemetry::traces::{RequestEnd, RequestSpan, within};

/// The maximum duration of a request, including its body. A change that has begun is finished even
/// after that.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The content type of pages.
const HTML: &str = "text/html; charset=utf-8";

/// The results of admission that the answer's headers and the log need.
#[derive(Default)]
struct AdmissionResult {
    window_state: Option<WindowState>,
    account: Option<AccountId>,
}

/// Handles a request from its arrival to its log line.
pub(super) async fn serve(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = api.clock.monotonic();
    let id = RequestId::of(request.headers(), &api.random);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let unread = UnreadBody::take_from(&mut request);
    let learnt = Mutex::new(AdmissionResult::default());

    let random = || api.random.bits();
    let span = RequestSpan::begin(request.headers(), api.clock.now(), random);
    let answer = answer(&api, request, next, unread.as_ref(), &learnt);
    let mut response = within(span.as_ref(), bounded(&api.clock, answer)).await;
    if let Some(unread) = unread {
        unread.drain(&api.tasks, &api.clock);
    }

    let AdmissionResult { window_state, account } = learnt.into_inner();
    response = with_request_id(response, &id);
    if let Some(window_state) = window_state {
        limits::insert_rate_limit_headers(response.headers_mut(), &window_state);
    }
    let duration = api.clock.monotonic().saturating_sub(began);
    let template = route.as_ref().map_or("", MatchedPath::as_str);
    let template = template.strip_prefix(api.base_path.as_str()).unwrap_or(template);
    let endpoint = HttpRoute::of(&method, template);
    HTTP_REQUESTS.with(HttpAnswer(endpoint, response.status())).add(1);
    HTTP_SECONDS.with(endpoint).record_span(duration);
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let (status, request_id) = (response.status(), id.as_str());
    let answered = AnsweredRequest { method: &method, route, status, account, request_id };
    answered.log(&response, duration, span.as_ref());
    answered.trace(span, api.clock.now());
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.into_header());
    // Browsers must not guess a content type that differs from the declared one.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Waits for an answer up to the time limit. A panic is answered with 500.
async fn bounded(clock: &Clock, answer: impl Future<Output = Response>) -> Response {
    tokio::select! {
        biased;
        answered = AssertUnwindSafe(answer).catch_unwind() => answered.unwrap_or_else(|_| {
            ApiError::internal("the request's handler panicked").into_response()
        }),
        () = clock.sleep(TIME_LIMIT) => {
            ApiError::unavailable("the request took too long").into_response()
        }
    }
}

/// Returns the answer of the route, or the refusal of a call that is not admitted. Paths outside
/// the API are not checked here.
async fn answer(
    api: &Arc<Api>,
    mut request: Request,
    next: Next,
    unread: Option<&UnreadBody>,
    learnt: &Mutex<AdmissionResult>,
) -> Response {
    let (extensions, headers) = (request.extensions(), request.headers());
    let address = ClientAddress::of(extensions, headers, &api.trusted_proxies);
    request.extensions_mut().insert(address);
    let path = request.uri().path();
    if !api.base_path.leads_to_api(path) {
        return next.run(request).await;
    }
    let is_bulk = request.method() == Method::POST && path == api.bulk_path;
    let (wording, limit) = if is_bulk {
        (RefusalWording::Bulk, BULK_LIMIT)
    } else {
        (RefusalWording::Usual, USUAL_LIMIT)
    };
    let (admitted, window_state) =
        authentication::admit(api, request.headers(), address, wording).await;
    let account = admitted.as_ref().ok().map(|caller| caller.account);
    *learnt.lock() = AdmissionResult { window_state, account };
    let caller = match admitted {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    if unread.is_some_and(|unread| unread.exceeds(limit)) {
        return ApiError::too_large(limit).into_response();
    }
    request.extensions_mut().insert(caller);
    idempotency::answer(api, request, next, caller, limit).await
}

/// Adds the request id to the body of a 500, so that the request can be found in the log.
fn with_request_id(response: Response, id: &RequestId) -> Response {
    // A page for people refers to the header.
    let is_page = response.headers().get(header::CONTENT_TYPE).is_some_and(|given| given == HTML);
    if response.status() != StatusCode::INTERNAL_SERVER_ERROR || is_page {
        return response;
    }
    let cause = response.extensions().get::<InternalCause>();
    let cause = cause.map_or_else(|| "unknown".to_owned(), |InternalCause(cause)| cause.clone());
    ApiError::internal(cause).with_details(json!({ "requestId": id.as_str() })).into_response()
}

/// An answered request, as logs and traces show it.
struct AnsweredRequest<'a> {
    method: &'a Method,
    route: &'a str,
    status: StatusCode,
    account: Option<AccountId>,
    request_id: &'a str,
}

impl AnsweredRequest<'_> {
    fn log(&self, response: &Response, duration: Duration, span: Option<&RequestSpan>) {
        let Self { method, route, request_id, .. } = self;
        let (status, account) = (self.status.as_u16(), self.account.map(display));
        let trace_id = span.map(|span| display(span.trace_id()));
        // Rounded to 0.1 ms: more digits would be noise.
        let duration_ms = (duration.as_secs_f64() * 1e4).round() / 10.0;
        if let Some(InternalCause(cause)) = response.extensions().get() {
            tracing::error!(%method, route, status, duration_ms, request_id, account, trace_id, error = cause, "request failed");
        } else if matches!(**method, Method::GET | Method::HEAD) {
            tracing::debug!(%method, route, status, duration_ms, request_id, account, trace_id, "request");
        } else {
            tracing::info!(%method, route, status, duration_ms, request_id, account, trace_id, "request");
        }
    }

    /// Ends the span of a request. A request that was not admitted as a call makes no span.
    fn trace(&self, span: Option<RequestSpan>, ended_at: Timestamp) {
        let Self { method, route, status, request_id, .. } = *self;
        if let (Some(span), Some(account)) = (span, self.account) {
            span.end(&RequestEnd { method, route, status, account, request_id, ended_at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_and_endless_requests_are_answered() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let panicking = bounded(&clock, async { panic!("a handler's fault") }).await;
        assert_eq!(panicking.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let id = RequestId::of(&http::HeaderMap::new(), &crate::runtime::Random::seeded(1));
        let body = with_request_id(panicking, &id).into_body();
        let body = axum::body::to_bytes(body, 1_000).await.expect("a body");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["error"]["code"], "INTERNAL_ERROR");
        assert_eq!(body["error"]["message"], "Internal server error");
        assert_eq!(body["error"]["details"]["requestId"], id.as_str());

        let mut endless = Box::pin(bounded(&clock, std::future::pending()));
        assert!(futures_util::poll!(&mut endless).is_pending());
        clock.advance(TIME_LIMIT);
        assert_eq!(endless.await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
