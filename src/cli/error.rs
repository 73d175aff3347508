//! The errors of commands.

use std::fmt::Display;
use std::process::ExitCode;

use crate::config::ConfigErrors;

/// The reason why a command failed: one sentence that includes the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
    /// A signal ended the command before it was done.
    #[error("stopped at once by a signal; the next start resumes unfinished work")]
    Interrupted,
}

impl CliError {
    pub(super) fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    pub(super) fn failed(what: impl Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// Returns the exit code: 2 for usage errors, as in clap and shells; 130 for an interruption,
    /// as in shells; 1 otherwise.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

impl From<ConfigErrors> for CliError {
    fn from(mistakes: ConfigErrors) -> Self {
        Self::usage(mistakes)
    }
}
