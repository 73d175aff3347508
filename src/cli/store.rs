//! The store, for commands that work beside a server.

use std::sync::Arc;

use super::CliError;
use super::config::load_and_warn;
use crate::config::{Config, Sources};
use crate::store::sqlite::{Settings, SqliteStore};

/// Opens the configured store and, unless told not to, brings it up to date.
pub(super) async fn open(sources: &Sources) -> Result<Arc<SqliteStore>, CliError> {
    let config = load_and_warn(sources)?.config;
    let store = open_as_it_is(&config).await?;
    let fits = match config.store.migrate {
        true => store.migrate().await,
        false => store.check_version().await,
    };
    fits.map_err(CliError::failed)?;
    Ok(store)
}

/// Opens the configured store, whatever version it has. Makes the data folder, if it is there.
pub(super) async fn open_as_it_is(config: &Config) -> Result<Arc<SqliteStore>, CliError> {
    let (path, folder) = (&config.store.path, &config.data_dir);
    if path.starts_with(folder) {
        std::fs::create_dir_all(folder).map_err(|error| {
            let folder = folder.display();
            CliError::failed(format!("cannot create the data folder {folder} (data_dir): {error}"))
        })?;
    }
    let read_connections = config.store.read_connections;
    let settings = Settings { read_connections, ..Settings::new(path) };
    SqliteStore::open(&settings).await.map(Arc::new).map_err(CliError::failed)
}
