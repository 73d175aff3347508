//! The names of the actors of an account: the e-mail addresses of its members, and the names of its
//! keys.

use std::collections::BTreeMap;

use super::visitor::Visitor;
use super::{Dashboard, DashboardParts, PageError};

/// The names of actors, by the text of an actor.
pub(super) type ActorNames = BTreeMap<String, String>;

/// Returns the addresses of the members of the visitor's account.
pub(super) async fn addresses(
    dashboard: &DashboardParts,
    visitor: &Visitor,
) -> Result<ActorNames, PageError> {
    let members = dashboard.users.members(&visitor.visit, visitor.account()).await?;
    Ok(members.iter().map(|one| (one.user.to_string(), one.email.to_string())).collect())
}

/// Returns the names of these actors: the addresses of members, and names such as `key deploy`.
/// The keys are read only if one of the actors is a key.
pub(super) async fn actors<'a>(
    dashboard: &Dashboard,
    visitor: &Visitor,
    mut actors: impl Iterator<Item = &'a str>,
) -> Result<ActorNames, PageError> {
    let mut names = addresses(dashboard, visitor).await?;
    if actors.any(|actor| actor.starts_with("key_")) {
        let account = visitor.load_account(dashboard).await?;
        let keys = dashboard.accounts.keys(&account).await?;
        names.extend(keys.into_iter().map(|key| (key.id.to_string(), format!("key {}", key.name))));
    }
    Ok(names)
}
