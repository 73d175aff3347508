//! The page of the account, which consists of sections.

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::{display, members, own, signing, usage};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, shell};
use crate::domain::user::Role;

/// The forms of the page after one of them was submitted.
#[derive(Default)]
pub(super) struct AccountForms {
    /// The result of a change that was made.
    pub(super) success: Option<&'static str>,
    /// The form of an invitation with its messages.
    pub(super) invitation: (FormFields, FormMessages),
    /// The form of the visitor's times with its messages, if it was refused.
    pub(super) display: Option<(FormFields, FormMessages)>,
    /// The messages of the form of the password.
    pub(super) password: FormMessages,
    /// `true` if the signing secrets are shown in clear text. The audit log has the reading
    /// already.
    pub(super) shows_secrets: bool,
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    render(&dashboard, &visitor, &AccountForms::default()).await
}

/// Renders the page with its forms as they were submitted.
pub(super) async fn render(
    dashboard: &Dashboard,
    visitor: &Visitor,
    forms: &AccountForms,
) -> Result<Response, PageError> {
    let (account, visit) = (visitor.account(), &visitor.visit);
    let is_owner = visitor.may(Role::Owner);
    let overview = dashboard.accounts.overview(account).await?.ok_or(PageError::NotFound)?;
    let members = dashboard.users.members(visit, account).await?;
    let invitations = match is_owner {
        true => dashboard.users.invitations(visit, account).await?,
        false => Vec::new(),
    };
    let secrets = dashboard.accounts.signing_secrets(&overview.account).await?;
    let sessions = dashboard.users.sessions(visit).await?;
    let content = html! {
        div.head {
            h1 { (overview.account.name) }
            div.actions { a href=(dashboard.path("/account/audit")) { "Audit log" } }
        }
        @if let Some(success) = forms.success { p.note role="status" { (success) } }
        (usage::section(visitor, &overview))
        (members::section(dashboard, visitor, &members))
        @if is_owner {
            (members::invitations(dashboard, visitor, &invitations, &forms.invitation))
        }
        (signing::section(dashboard, visitor, &secrets, forms.shows_secrets))
        (display::section(dashboard, visitor, forms.display.as_ref()))
        (own::section(dashboard, visitor, &sessions, &forms.password))
    };
    Ok(shell::page(dashboard, visitor, ("Account", "Account"), &content))
}
