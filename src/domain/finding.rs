//! What a check has found out: a sentence, and whether something has to be done.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// The service works, but somebody should look at it.
    Warning,
    /// The service cannot work, or would lose what it is trusted with.
    Failure,
}

/// What a check has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was found and, if it is not as it should be, what to do. Holds no secret.
    pub text: String,
}

impl Finding {
    /// All is well.
    pub fn good(text: impl Into<String>) -> Self {
        Self { grade: Grade::Good, text: text.into() }
    }

    /// Somebody should look at it.
    pub fn warning(text: impl Into<String>) -> Self {
        Self { grade: Grade::Warning, text: text.into() }
    }

    /// It cannot work.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { grade: Grade::Failure, text: text.into() }
    }
}
