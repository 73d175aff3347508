//! `punctual config`: the configuration in force.

use super::{CliError, output};
use crate::config::{Config, Loaded, Mistakes, Sources, load, load_part};

pub(super) fn run(sources: &Sources) -> Result<(), CliError> {
    output::print(warned(load(sources))?.commented())
}

/// The configuration of a command that does not log and needs only a part of it. What should be
/// known of it goes to standard error.
pub(super) fn load_part_and_warn(sources: &Sources) -> Result<Config, CliError> {
    Ok(warned(load_part(sources))?.config)
}

/// The whole configuration, as `serve` takes it, for a command that does not log.
pub(super) fn load_and_warn(sources: &Sources) -> Result<Config, CliError> {
    Ok(warned(load(sources))?.config)
}

fn warned(loaded: Result<Loaded, Mistakes>) -> Result<Loaded, CliError> {
    let loaded = loaded?;
    warn(&loaded.warnings);
    Ok(loaded)
}

/// Tells what should be known of a configuration, although it is no mistake.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        output::complain(&format!("warning: {warning}"));
    }
}
