//! How a command fails.

use std::fmt::Display;
use std::process::ExitCode;

use crate::config::Mistakes;

/// Why a command did not do what it should: one sentence with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
    /// A signal ended it before it was done.
    #[error("stopped at once by a signal; what was under way is taken up at the next start")]
    Interrupted,
}

impl CliError {
    pub(super) fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    pub(super) fn failed(what: impl Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// 2 for usage, as of clap and of shells; 130 for an interruption, as of shells; 1 otherwise.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

impl From<Mistakes> for CliError {
    fn from(mistakes: Mistakes) -> Self {
        Self::usage(mistakes)
    }
}
