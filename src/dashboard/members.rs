//! The e-mail addresses of the members of an account.

use std::collections::BTreeMap;

use super::visitor::Visitor;
use super::{DashboardParts, PageError};

/// The e-mail addresses of members, by the text of an actor.
pub(super) type Addresses = BTreeMap<String, String>;

/// Returns the addresses of the members of the visitor's account.
pub(super) async fn addresses(
    dashboard: &DashboardParts,
    visitor: &Visitor,
) -> Result<Addresses, PageError> {
    let members = dashboard.users.members(&visitor.visit, visitor.account()).await?;
    Ok(members.iter().map(|one| (one.user.to_string(), one.email.to_string())).collect())
}
