//! The first two checks of every API call: its key and its rate limit.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::{Api, ApiError, SharedApi, limits};
use crate::accounts::{Caller, PresentedKey, Refusal};
use crate::domain::AccountId;
use crate::domain::audit::{Actor, Author, Origin};
use crate::domain::call::{Call, Idempotency};
use crate::domain::key::Scope;
use crate::queue::WindowState;
use crate::runtime::ClientAddress;
use crate::telemetry::metrics::{AUTH_FAILURES, RATE_LIMITED};

const KEY_HEADER: &str = "x-api-key";

/// The codes and messages of a refusal. Bulk creation has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalWording {
    /// The wording of all other routes.
    Usual,
    /// The wording of bulk creation.
    Bulk,
}

/// Admits or refuses a call. The second value is the state of the rate limit for the answer's
/// headers, if a limit is switched on.
pub(super) async fn admit(
    api: &Api,
    headers: &HeaderMap,
    address: ClientAddress,
    wording: RefusalWording,
) -> (Result<Caller, ApiError>, Option<WindowState>) {
    let decision = api.authenticator.admit(presented(headers), address.0).await;
    let window_state = decision.window_state;
    let outcome = decision.outcome.map_err(|refusal| {
        match refusal {
            Refusal::TooMany => RATE_LIMITED.add(1),
            Refusal::Store(_) => {}
            _ => AUTH_FAILURES.add(1),
        }
        match refusal {
            Refusal::TooMany => limits::exceeded(window_state, api.clock.now()),
            Refusal::Store(error) => error.into(),
            Refusal::Missing if wording == RefusalWording::Bulk => {
                unauthorized("UNAUTHORIZED", "Missing x-api-key header")
            }
            Refusal::Missing => unauthorized("MISSING_API_KEY", "API key is required"),
            Refusal::Invalid if wording == RefusalWording::Bulk => {
                unauthorized("UNAUTHORIZED", "Invalid API key")
            }
            Refusal::Invalid => unauthorized("INVALID_API_KEY", "Invalid API key"),
            Refusal::Expired => unauthorized("EXPIRED_API_KEY", "API key has expired"),
        }
    });
    (outcome, window_state)
}

/// Returns the 401 for a key that is still cached although its account was deleted a moment ago.
pub(super) fn account_gone() -> ApiError {
    unauthorized("INVALID_API_KEY", "Invalid API key")
}

fn unauthorized(code: &'static str, message: &'static str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, code, message)
}

/// Returns the key in the headers. Two keys are garbled, since it is unclear which one is meant.
fn presented(headers: &HeaderMap) -> PresentedKey<'_> {
    let mut given = headers.get_all(KEY_HEADER).into_iter();
    let Some(first) = given.next() else { return PresentedKey::Nothing };
    if given.next().is_some() {
        return PresentedKey::Garbled;
    }
    match first.to_str() {
        Ok(text) if text.trim().is_empty() => PresentedKey::Nothing,
        Ok(text) => PresentedKey::Text(text),
        Err(_) => PresentedKey::Garbled,
    }
}

/// The account of a call that only reads.
pub(super) struct ReadAccess(pub(super) AccountId);

/// The account and the author of a call that changes something. The API key must have the scope
/// `write`.
pub(super) struct WriteAccess(pub(super) AccountId, pub(super) Call);

impl<S: Sync> FromRequestParts<S> for ReadAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        caller(parts).map(|caller| Self(caller.account))
    }
}

impl<S: Sync> FromRequestParts<S> for WriteAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = caller(parts)?;
        match caller.scope {
            Scope::Write => {
                let origin = Origin::Client(address(parts)?.0);
                let author = Author { actor: Actor::Key(caller.key), origin };
                let idempotency = parts.extensions.get::<Idempotency>().copied();
                Ok(Self(caller.account, Call { author, idempotency }))
            }
            Scope::Read => {
                let message = "This API key can only read; the call needs one with scope write";
                Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message))
            }
        }
    }
}

/// Proof that a call without a key comes from a client address that is within its rate limit.
pub(super) struct AnonymousCaller;

impl FromRequestParts<SharedApi> for AnonymousCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &SharedApi) -> Result<Self, ApiError> {
        let address = address(parts)?;
        let admission = api.authenticator.admit_without_key(address.0).await;
        if admission.allowed {
            return Ok(Self);
        }
        RATE_LIMITED.add(1);
        Err(limits::exceeded(admission.window_state, api.clock.now()))
    }
}

fn caller(parts: &Parts) -> Result<Caller, ApiError> {
    let caller = parts.extensions.get::<Caller>().copied();
    caller.ok_or_else(|| ApiError::internal("a route of the API was reached without a caller"))
}

fn address(parts: &Parts) -> Result<ClientAddress, ApiError> {
    let address = parts.extensions.get::<ClientAddress>().copied();
    address.ok_or_else(|| ApiError::internal("a route was reached without an address"))
}
