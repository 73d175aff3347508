//! What a failed command means to the client.

use http::StatusCode;
use serde_json::json;

use super::ApiError;
use super::guard::account_gone;
use super::id::{no_such_job, no_such_schedule};
use crate::accounts::AccountError;
use crate::domain::plan::LimitExceeded;
use crate::schedules::{CommandError, FieldErrors, JsonError};
use crate::store::{StoreError, StoreErrorKind};

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        match error.kind() {
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
            CommandError::Suspended => Self::new(
                StatusCode::FORBIDDEN,
                "FORBIDDEN",
                "The account is suspended: its schedules do not run, and it can only be read",
            ),
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

impl From<LimitExceeded> for ApiError {
    fn from(exceeded: LimitExceeded) -> Self {
        let LimitExceeded { limit, max, current, requested, plan, item } = exceeded;
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
    fn the_kind_of_a_stores_failure_decides_what_a_client_does() {
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
