//! Changes of the members of the account and of the invitations to it.

use axum::extract::{Path, State};
use axum::response::Response;

use super::page::{AccountForms, render};
use crate::accounts::UserError;
use crate::dashboard::form::{FormFields, Messages};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, id_of, shell};
use crate::domain::field_errors::FieldErrors;
use crate::domain::user::Role;
use crate::domain::{InvitationId, UserId};

/// Reads the role of a form.
fn role(fields: &FormFields) -> Result<Role, PageError> {
    let role = fields.text("role").parse();
    role.map_err(|_| PageError::Refused("Choose a role.".to_owned()))
}

/// Returns the error of a page. A member or an invitation of another account is not found.
fn not_done(error: UserError) -> PageError {
    match error {
        UserError::NoSuchMember => PageError::NotFound,
        error => error.into(),
    }
}

pub(super) async fn set_role(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(user): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let user: UserId = id_of(&user)?;
    let (visit, account, role) = (&visitor.visit, visitor.account(), role(&fields)?);
    dashboard.users.set_role(visit, account, user, role).await.map_err(not_done)?;
    Ok(shell::redirect(&dashboard.path("/account")))
}

/// Removes a member. A user who leaves sees another account of theirs, if there is one.
pub(super) async fn remove(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(user): Path<String>,
) -> Result<Response, PageError> {
    let user: UserId = id_of(&user)?;
    let (visit, account) = (&visitor.visit, visitor.account());
    dashboard.users.remove_member(visit, account, user).await.map_err(not_done)?;
    let next = if user == visit.session.user { "" } else { "/account" };
    Ok(shell::redirect(&dashboard.path(next)))
}

pub(super) async fn invite(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (visit, account, role) = (&visitor.visit, visitor.account(), role(&fields)?);
    let messages = match dashboard.users.invite(visit, account, fields.text("email"), role).await {
        Ok(_) => {
            let success = Some("The invitation is on its way.");
            let forms = AccountForms { success, ..AccountForms::default() };
            return render(&dashboard, &visitor, &forms).await;
        }
        Err(UserError::Address(error)) => {
            Messages::of_fields(FieldErrors::of("email", error.to_string()))
        }
        Err(error @ (UserError::NoMail(_) | UserError::TooMany(_) | UserError::Mail(_))) => {
            Messages::general(&error.to_string())
        }
        Err(error) => return Err(not_done(error)),
    };
    let forms = AccountForms { invitation: (fields, messages), ..AccountForms::default() };
    Ok(shell::refused(render(&dashboard, &visitor, &forms).await?))
}

pub(super) async fn take_back(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let id: InvitationId = id_of(&id)?;
    let (visit, account) = (&visitor.visit, visitor.account());
    dashboard.users.take_back_invitation(visit, account, id).await.map_err(not_done)?;
    Ok(shell::redirect(&dashboard.path("/account")))
}
