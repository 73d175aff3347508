//! `punctual metrics`: every metric there is.

use super::{CliError, output};
use crate::telemetry::metrics::document;

pub(super) fn run() -> Result<(), CliError> {
    output::print(&document())
}
