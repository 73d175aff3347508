//! Showing and rotating the signing secrets. Only owners may do that.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::page::{AccountForms, render};
use super::signing::OVERLAPS;
use crate::dashboard::form::FormFields;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, shell};
use crate::domain::audit::Action;
use crate::domain::user::Role;

/// Shows the secrets in clear text, after the reading was noted in the audit log.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let account = visitor.load_account(&dashboard).await?;
    let (author, how) = (visitor.author(), Action::SigningSecretsShown);
    dashboard.accounts.note_reading(author, &account, how).await?;
    let forms = AccountForms { shows_secrets: true, ..AccountForms::default() };
    render(&dashboard, &visitor, &forms).await
}

pub(super) async fn rotate(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let overlap = Duration::from_secs(fields.seconds("overlap", &OVERLAPS)?);
    let account = visitor.load_account(&dashboard).await?;
    dashboard.accounts.rotate_signing_secret(visitor.author(), &account, overlap).await?;
    Ok(shell::redirect(&dashboard.path("/account")))
}
