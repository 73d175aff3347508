//! `punctual config`: prints the configuration in force.

use super::{CliError, output};
use crate::config::{Config, ConfigErrors, LoadedConfig, Sources, load, load_part};

pub(super) fn run(sources: &Sources) -> Result<(), CliError> {
    output::print(warned(load(sources))?.commented())
}

/// Loads the configuration for a command that does not log and needs only a part of it. Warnings go
/// to standard error.
pub(super) fn load_part_and_warn(sources: &Sources) -> Result<Config, CliError> {
    Ok(warned(load_part(sources))?.config)
}

/// Loads the whole configuration, as `serve` does, for a command that does not log. Warnings go to
/// standard error.
pub(super) fn load_and_warn(sources: &Sources) -> Result<Config, CliError> {
    Ok(warned(load(sources))?.config)
}

fn warned(loaded: Result<LoadedConfig, ConfigErrors>) -> Result<LoadedConfig, CliError> {
    let loaded = loaded?;
    warn(&loaded.warnings);
    Ok(loaded)
}

/// Prints the warnings of a configuration to standard error.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        output::complain(&format!("warning: {warning}"));
    }
}
