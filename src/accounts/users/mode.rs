//! Who may become a user.

use std::str::FromStr;

use crate::domain::UnknownName;

/// Who may become a user without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignUpMode {
    /// Anybody.
    Open,
    /// Who is invited into an account.
    Invitation,
    /// Nobody.
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
