//! `punctual migrate`: applies the migrations of the store.

use super::config::load_part_and_warn;
use super::{CliError, output};
use crate::app::OpenStore;
use crate::config::Sources;
use crate::runtime::Random;

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let config = load_part_and_warn(sources)?;
    let store = OpenStore::open(&config, &Random::system()).await.map_err(CliError::failed)?;
    let migrated = store.migrate().await.map_err(CliError::failed);
    store.close().await;
    migrated?;
    output::print(&format!("{} is up to date\n", config.store))
}
