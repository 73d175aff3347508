//! `punctual config`: the configuration in force.

use super::{CliError, output};
use crate::config::{Loaded, Sources, load};

pub(super) fn run(sources: &Sources) -> Result<(), CliError> {
    output::print(load_and_warn(sources)?.commented())
}

/// The configuration of a command that does not log. What should be known of it goes to standard
/// error.
pub(super) fn load_and_warn(sources: &Sources) -> Result<Loaded, CliError> {
    let loaded = load(sources)?;
    for warning in &loaded.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(loaded)
}
