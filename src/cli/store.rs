//! The store, for commands that work beside a server.

use std::sync::Arc;

use super::CliError;
use super::config::load_and_warn;
use crate::app::{open_store, update_store};
use crate::config::Sources;
use crate::store::sqlite::SqliteStore;

/// Opens the configured store and, unless told not to, brings it up to date.
pub(super) async fn open(sources: &Sources) -> Result<Arc<SqliteStore>, CliError> {
    let config = load_and_warn(sources)?.config;
    let store = open_store(&config).await.map_err(CliError::failed)?;
    update_store(&config, &store).await.map_err(CliError::failed)?;
    Ok(store)
}
