//! `punctual metrics`: prints the table of all metrics.

use super::{CliError, output};
use crate::telemetry::metrics::document;

pub(super) fn run() -> Result<(), CliError> {
    output::print(&document())
}
