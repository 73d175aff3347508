//! Showing and rotating the signing secrets. Only owners may do this.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::page::{AccountForms, render};
use super::signing::OVERLAPS;
use crate::dashboard::form::FormFields;
use crate::dashboard::question::{Question, choice_words, is_sure};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, question, shell};
use crate::domain::audit::Action;
use crate::domain::user::Role;

/// Shows the secrets in clear text, after the reading was recorded in the audit log.
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
    if !is_sure(&fields) {
        let overlap = choice_words(&OVERLAPS, fields.text("overlap"));
        let question = Question {
            entry: "Account",
            title: "Rotate the signing secret?",
            text: &format!(
                "A new secret signs all requests of the account from now on. The old one still \
                 signs for {overlap}: give the new one to all targets before that. This cannot be \
                 undone."
            ),
            page: "/account/signing/rotate",
            fields: &[("overlap", fields.text("overlap"))],
            button: "Rotate secret",
            keep: ("Keep it", "/account#signing"),
        };
        return Ok(question::ask(&dashboard, &visitor, &question));
    }
    let account = visitor.load_account(&dashboard).await?;
    dashboard.accounts.rotate_signing_secret(visitor.author(), &account, overlap).await?;
    Ok(shell::redirect(&dashboard.path("/account")))
}
