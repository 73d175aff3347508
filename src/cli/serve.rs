//! `punctual serve`: runs the service.

use super::CliError;
use crate::app::{App, ServiceEnd, Signals};
use crate::config::{Config, Sources, load};
use crate::telemetry::log::{self, LogSink};

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let (config, _log) = begin(sources)?;
    let (app, signals) = start(&config).await?;
    finish(app, signals).await
}

/// Reads the configuration and starts logging. The caller must keep the sink until the last line is
/// logged.
pub(super) fn begin(sources: &Sources) -> Result<(Config, LogSink), CliError> {
    let loaded = load(sources)?;
    let sink = log::init(&loaded.config.log);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok((loaded.config, sink))
}

/// Starts the service. Returns an error if a signal arrives before the start is complete.
pub(super) async fn start(config: &Config) -> Result<(App, Signals), CliError> {
    let signals = Signals::receive();
    let mut signals =
        signals.map_err(|error| CliError::failed(format!("cannot receive signals: {error}")))?;
    tokio::select! {
        app = App::start(config) => Ok((app.map_err(CliError::failed)?, signals)),
        () = signals.wait_for_one() => Err(CliError::Interrupted),
    }
}

/// Runs the service until a signal or a failure.
pub(super) async fn finish(app: App, signals: Signals) -> Result<(), CliError> {
    match app.run(signals).await {
        ServiceEnd::AsAsked => Ok(()),
        ServiceEnd::CutOff => Err(CliError::failed(
            "some work did not end within shutdown.grace_seconds; the next start resumes it",
        )),
        ServiceEnd::Failed => {
            Err(CliError::failed("the service has failed and stopped; the log says why"))
        }
        ServiceEnd::AtOnce => Err(CliError::Interrupted),
    }
}
