//! Changes of the members of the account and of the invitations to it.

use axum::extract::{Path, State};
use axum::response::Response;

use super::page::{AccountForms, render};
use crate::accounts::UserError;
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::question::{Question, is_sure};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, id_of, question, shell};
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
    fields: FormFields,
) -> Result<Response, PageError> {
    let user: UserId = id_of(&user)?;
    let (visit, account) = (&visitor.visit, visitor.account());
    if !is_sure(&fields) {
        return ask_to_remove(&dashboard, &visitor, user).await;
    }
    dashboard.users.remove_member(visit, account, user).await.map_err(not_done)?;
    let next = if user == visit.session.user { "" } else { "/account" };
    Ok(shell::redirect(&dashboard.path(next)))
}

/// Asks for confirmation before a member is removed, because only an invitation brings a member
/// back.
async fn ask_to_remove(
    dashboard: &Dashboard,
    visitor: &Visitor,
    user: UserId,
) -> Result<Response, PageError> {
    let is_self = user == visitor.visit.session.user;
    if !is_self {
        visitor.needs(Role::Owner)?;
    }
    let members = dashboard.users.members(&visitor.visit, visitor.account()).await;
    let members = members.map_err(not_done)?;
    let member = members.iter().find(|one| one.user == user).ok_or(PageError::NotFound)?;
    let account = &visitor.membership.name;
    let (title, text) = if is_self {
        (
            format!("Leave the account {account}?"),
            "You no longer see it. Only an owner can invite you again. API keys stay.",
        )
    } else {
        (
            format!("Remove {}?", member.email),
            "The user no longer sees this account, and comes back only by a new invitation. API \
             keys stay: revoke those that the user knows.",
        )
    };
    let question = Question {
        entry: "Account",
        title: &title,
        text,
        page: &format!("/account/members/{user}/remove"),
        fields: &[],
        button: if is_self { "Leave the account" } else { "Remove the member" },
        keep: ("Cancel", "/account"),
    };
    Ok(question::ask(dashboard, visitor, &question))
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
            FormMessages::of_fields(FieldErrors::of("email", error.to_string()))
        }
        Err(error @ (UserError::NoMail(_) | UserError::TooMany(_) | UserError::Mail(_))) => {
            FormMessages::general(&error.to_string())
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
    fields: FormFields,
) -> Result<Response, PageError> {
    let id: InvitationId = id_of(&id)?;
    let (visit, account) = (&visitor.visit, visitor.account());
    if !is_sure(&fields) {
        visitor.needs(Role::Owner)?;
        let invitations = dashboard.users.invitations(visit, account).await.map_err(not_done)?;
        let found = invitations.iter().find(|one| one.id == id).ok_or(PageError::NotFound)?;
        let question = Question {
            entry: "Account",
            title: &format!("Revoke the invitation of {}?", found.email),
            text: "The link in the mail stops working. To invite the person, send another one.",
            page: &format!("/account/invitations/{id}/take-back"),
            fields: &[],
            button: "Revoke the invitation",
            keep: ("Keep it", "/account"),
        };
        return Ok(question::ask(&dashboard, &visitor, &question));
    }
    dashboard.users.take_back_invitation(visit, account, id).await.map_err(not_done)?;
    Ok(shell::redirect(&dashboard.path("/account")))
}
