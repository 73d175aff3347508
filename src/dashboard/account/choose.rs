//! The choice of the account that the pages show.

use axum::extract::State;
use axum::response::Response;

use crate::dashboard::form::FormFields;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, shell};

/// Keeps the choice in a cookie. Each request checks the membership again.
pub(super) async fn choose(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let wanted = fields.text("account");
    let mut accounts = visitor.memberships.iter().map(|one| one.account);
    let account = accounts.find(|account| account.to_string() == wanted);
    Ok(shell::switch_account(account.ok_or(PageError::NotFound)?, &dashboard.path("")))
}
