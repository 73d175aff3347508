//! Maps the errors of commands to error answers.

use http::StatusCode;
use serde_json::json;

use super::authentication::account_gone;
use super::id::{no_such_channel, no_such_delivery, no_such_job, no_such_schedule};
use super::{ApiError, limits};
use crate::accounts::AccountError;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::LimitExceeded;
use crate::domain::request_body::JsonError;
use crate::notifications::NotificationError;
use crate::schedules::CommandError;
use crate::store::{StoreError, StoreErrorKind, TESTS_PER_HOUR};

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        match error.kind() {
            // A repeat of this call holds the idempotency key now.
            StoreErrorKind::TakenOver => Self::in_progress(),
            _ if error.is_transient() => Self::unavailable(cause),
            _ => Self::internal(cause),
        }
    }
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        Self::invalid(errors)
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        Self::invalid_form(&error.to_string())
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let conflict = |code, message| Self::new(StatusCode::CONFLICT, code, message);
        match error {
            CommandError::Invalid(errors) => errors.into(),
            CommandError::NoSuchSchedule => no_such_schedule(),
            CommandError::NoSuchJob => no_such_job(),
            CommandError::LimitExceeded(exceeded) => exceeded.into(),
            CommandError::Suspended => suspended(),
            CommandError::NoSuchAccount => account_gone(),
            CommandError::Contended => {
                conflict("CONFLICT", "The schedule is being changed by others, try again")
            }
            CommandError::JobUnfinished => conflict("CONFLICT", "The job has not finished"),
            CommandError::JobFinished => {
                conflict("JOB_ALREADY_FINISHED", "The job has already finished")
            }
            CommandError::Store(error) => error.into(),
            CommandError::Stopping | CommandError::Uncounted => {
                Self::unavailable(error.to_string())
            }
            CommandError::Panicked => Self::internal(error.to_string()),
        }
    }
}

impl From<NotificationError> for ApiError {
    fn from(error: NotificationError) -> Self {
        match error {
            NotificationError::Invalid(errors) => errors.into(),
            NotificationError::NoSuchSchedule => no_such_schedule(),
            NotificationError::NoSuchChannel => no_such_channel(),
            NotificationError::NoSuchDelivery => no_such_delivery(),
            NotificationError::NoSuchAccount => account_gone(),
            NotificationError::Suspended => suspended(),
            NotificationError::LimitExceeded(exceeded) => exceeded.into(),
            NotificationError::VerificationFailed { code, message, status } => {
                verification_failed(code, message, status)
            }
            NotificationError::TooManyTests { reset_at, wait } => {
                limits::too_many(TESTS_PER_HOUR, limits::HOUR, reset_at, wait)
            }
            NotificationError::Conflict(message) => Self::conflict("CONFLICT", message),
            NotificationError::Contended => {
                Self::conflict("CONFLICT", "The channel is being changed by others, try again")
            }
            NotificationError::Store(error) => error.into(),
            NotificationError::Stopping => Self::unavailable(error.to_string()),
            NotificationError::Panicked => Self::internal(error.to_string()),
        }
    }
}

fn suspended() -> ApiError {
    let message = "The account is suspended: its schedules do not run, and it can only be read";
    ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
}

fn verification_failed(code: DeliveryError, message: String, status: Option<u16>) -> ApiError {
    let mut details = json!({ "reason": code.as_str() });
    if let Some(status) = status {
        details["providerStatus"] = status.into();
    }
    let failed = StatusCode::UNPROCESSABLE_ENTITY;
    ApiError::new(failed, "CHANNEL_VERIFICATION_FAILED", message).with_details(details)
}

impl From<LimitExceeded> for ApiError {
    fn from(exceeded: LimitExceeded) -> Self {
        let LimitExceeded { limit, max, current, requested, plan, choice, item } = exceeded;
        let message = match limit {
            "schedules" => format!("The plan {plan} allows {max} schedules"),
            "shortestIntervalSeconds" => {
                format!("The plan {plan} allows a run every {max} seconds at most")
            }
            "bodyBytes" => format!("The plan {plan} allows bodies of {max} bytes at most"),
            "jobsPerMonth" if max == 0 => format!("The plan {plan} allows no jobs"),
            "jobsPerMonth" => {
                format!("The plan {plan} allows {max} jobs a month, which are used up")
            }
            "channels" => format!("The plan {plan} allows {max} notification channels"),
            "channelTypes" => {
                let kind = choice.unwrap_or("this type");
                format!("The plan {plan} does not allow channels of type {kind}")
            }
            "notifyOn" => {
                let outcomes = if choice == Some("both") {
                    "failure and success"
                } else {
                    choice.unwrap_or("this")
                };
                format!("The plan {plan} does not allow alerts on {outcomes}")
            }
            other => format!("The plan {plan} allows {max} at most ({other})"),
        };
        let message = item
            .map_or(message.clone(), |item| format!("{message} (schedule {item} of the batch)"));
        Self::new(StatusCode::FORBIDDEN, "PLAN_LIMIT_EXCEEDED", message).with_details(json!({
            "limit": limit, "max": max, "current": current, "requested": requested, "plan": plan,
        }))
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Store(error) => error.into(),
            other => Self::internal(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn the_kind_of_a_store_failure_decides_the_status() {
        for (kind, status) in [
            (StoreErrorKind::Locked, StatusCode::SERVICE_UNAVAILABLE),
            (StoreErrorKind::Refused, StatusCode::SERVICE_UNAVAILABLE),
            (StoreErrorKind::TakenOver, StatusCode::CONFLICT),
            (StoreErrorKind::Corrupt, StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            let error = ApiError::from(StoreError::new("create_job", kind, "why"));
            assert_eq!(error.into_response().status(), status, "{kind:?}");
        }
    }
}
