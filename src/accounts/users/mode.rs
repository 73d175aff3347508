//! The sign-up mode.

use std::str::FromStr;

use crate::domain::UnknownName;

/// The rule for sign-up without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignUpMode {
    /// Anyone can sign up.
    Open,
    /// Only a person with an invitation to an account can sign up.
    Invitation,
    /// Sign-up is disabled.
    Off,
}

impl FromStr for SignUpMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "open" => Ok(Self::Open),
            "invitation" => Ok(Self::Invitation),
            "off" => Ok(Self::Off),
            _ => Err(UnknownName),
        }
    }
}
