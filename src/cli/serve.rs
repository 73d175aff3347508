//! `punctual serve`: the service.

use super::CliError;
use crate::app::App;
use crate::config::{Config, Sources, load};
use crate::telemetry::log::{self, Sink};

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let (config, _log) = begin(sources)?;
    let app = App::start(&config).await.map_err(CliError::failed)?;
    finish(app).await
}

/// Reads the configuration and begins to log. The sink has to be kept until the last line.
pub(super) fn begin(sources: &Sources) -> Result<(Config, Sink), CliError> {
    let loaded = load(sources)?;
    let sink = log::init(&loaded.config.log);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok((loaded.config, sink))
}

/// Serves until a signal or a failure.
pub(super) async fn finish(app: App) -> Result<(), CliError> {
    match app.run().await {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::failed("the service has failed and stopped; the log says why")),
        Err(error) => Err(CliError::failed(format!("cannot receive signals: {error}"))),
    }
}
