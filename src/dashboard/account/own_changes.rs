//! Changes of the visitor's own password and sessions.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};

use super::page::{AccountForms, render};
use crate::accounts::{Password, UserError, no_session_cookie};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::question::{Question, is_sure};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, question, shell};
use crate::domain::field_errors::FieldErrors;

pub(super) async fn change_password(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let messages = match change(&dashboard, &visitor, &fields).await {
        Ok(()) => {
            let success = Some("Your password is changed. Your other sessions have ended.");
            let forms = AccountForms { success, ..AccountForms::default() };
            return render(&dashboard, &visitor, &forms).await;
        }
        Err(UserError::WrongCredentials) => {
            FormMessages::of_fields(FieldErrors::of("present", "The current password is wrong"))
        }
        Err(UserError::Password(error)) => {
            FormMessages::of_fields(FieldErrors::of("new", error.to_string()))
        }
        Err(error @ UserError::TooMany(_)) => FormMessages::general(&error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let forms = AccountForms { password: messages, ..AccountForms::default() };
    Ok(shell::refused(render(&dashboard, &visitor, &forms).await?))
}

async fn change(
    dashboard: &Dashboard,
    visitor: &Visitor,
    fields: &FormFields,
) -> Result<(), UserError> {
    let new = Password::new(fields.text("new"))?;
    dashboard.users.change_password(&visitor.visit, fields.text("present"), &new).await
}

/// Ends all sessions of the user, this one too, after a question.
pub(super) async fn sign_out_everywhere(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    if !is_sure(&fields) {
        let question = Question {
            entry: "Account",
            title: "Sign out everywhere?",
            text: "All your sessions end, this one too. Sign in again to continue. API keys stay.",
            page: "/account/sign-out-everywhere",
            fields: &[],
            button: "Sign out everywhere",
            keep: ("Cancel", "/account#sessions"),
        };
        return Ok(question::ask(&dashboard, &visitor, &question));
    }
    dashboard.users.sign_out_everywhere(&visitor.visit).await?;
    let cookie = HeaderValue::try_from(no_session_cookie()).expect("a fixed text");
    let mut response = shell::redirect(&dashboard.path("/sign-in"));
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(response)
}
