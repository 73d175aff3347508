//! `punctual openapi`: prints the OpenAPI document.

use clap::Args;

use super::{CliError, output};
use crate::api::{BasePath, document};

/// The deployment to describe.
#[derive(Args, Debug)]
pub struct OpenapiArgs {
    /// The prefix of the API's paths, such as /api
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    base_path: BasePath,
}

pub(super) fn run(args: &OpenapiArgs) -> Result<(), CliError> {
    let document = document(args.base_path.as_str()).to_pretty_json();
    output::print(&format!("{}\n", document.map_err(CliError::failed)?))
}
