//! Opens the store for commands that run beside a server.

use std::sync::Arc;

use super::CliError;
use super::config::load_part_and_warn;
use crate::app::OpenStore;
use crate::config::Sources;
use crate::domain::plan::Plans;
use crate::runtime::Random;

/// Opens the configured store and applies its migrations. If `store.migrate` is off, returns an
/// error unless they are applied.
pub(super) async fn open(sources: &Sources) -> Result<OpenStore, CliError> {
    Ok(open_with_plans(sources).await?.0)
}

/// Opens the store like [`open`], and also returns the configured plans.
pub(super) async fn open_with_plans(
    sources: &Sources,
) -> Result<(OpenStore, Arc<Plans>), CliError> {
    let config = load_part_and_warn(sources)?;
    let store = OpenStore::open(&config, &Random::system()).await.map_err(CliError::failed)?;
    store.update(&config).await.map_err(CliError::failed)?;
    Ok((store, config.plans))
}
