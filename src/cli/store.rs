//! The store, for commands that work beside a server.

use super::CliError;
use super::config::load_part_and_warn;
use crate::app::OpenStore;
use crate::config::Sources;
use crate::runtime::Random;

/// Opens the configured store and, unless told not to, brings it up to date.
pub(super) async fn open(sources: &Sources) -> Result<OpenStore, CliError> {
    let config = load_part_and_warn(sources)?;
    let store = OpenStore::open(&config, &Random::system()).await.map_err(CliError::failed)?;
    store.update(&config).await.map_err(CliError::failed)?;
    Ok(store)
}
