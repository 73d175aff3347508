//! The finding of a check: a sentence and its severity.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Everything is as it should be.
    Good,
    /// The service works, but an operator should look at it.
    Warning,
    /// The service cannot work, or would lose data.
    Failure,
}

/// The finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub grade: Grade,
    /// The finding and, if something is wrong, what to do. It contains no secret.
    pub text: String,
}

impl Finding {
    /// Returns a finding without a problem.
    pub fn good(text: impl Into<String>) -> Self {
        Self { grade: Grade::Good, text: text.into() }
    }

    /// Returns a finding that an operator should look at.
    pub fn warning(text: impl Into<String>) -> Self {
        Self { grade: Grade::Warning, text: text.into() }
    }

    /// Returns a finding that the service cannot work.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { grade: Grade::Failure, text: text.into() }
    }
}
