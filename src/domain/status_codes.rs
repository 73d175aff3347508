//! The status codes that a schedule counts as success.

use std::fmt;
use std::str::FromStr;

/// A list of status codes and ranges. It keeps the user's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedStatusCodes {
    text: String,
    ranges: Vec<(u16, u16)>,
}

/// The error for a text that is not a list of status codes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("Invalid status codes")]
pub struct InvalidStatusCodes;

/// The maximum length of a list in bytes: more than enough to list all 500 codes.
const MAX_BYTES: usize = 4_096;

impl ExpectedStatusCodes {
    /// Returns `true` if `status` is in the list.
    pub fn contains(&self, status: u16) -> bool {
        self.ranges.iter().any(|&(low, high)| (low..=high).contains(&status))
    }

    /// Returns the list as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ExpectedStatusCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ExpectedStatusCodes {
    type Err = InvalidStatusCodes;

    /// Reads `ddd` and `ddd-ddd`, comma-separated, 100 to 599. Blanks around items are allowed.
    fn from_str(text: &str) -> Result<Self, InvalidStatusCodes> {
        if text.len() > MAX_BYTES {
            return Err(InvalidStatusCodes);
        }
        let ranges = text.split(',').map(|item| range(item.trim())).collect::<Option<Vec<_>>>();
        Ok(Self { text: text.to_owned(), ranges: ranges.ok_or(InvalidStatusCodes)? })
    }
}

fn range(item: &str) -> Option<(u16, u16)> {
    let (low, high) = match item.split_once('-') {
        Some((low, high)) => (code(low)?, code(high)?),
        None => (code(item)?, code(item)?),
    };
    (low <= high).then_some((low, high))
}

fn code(digits: &str) -> Option<u16> {
    if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|code| (100..=599).contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let codes: ExpectedStatusCodes = "200-299, 410".parse().expect("valid");
        assert!(codes.contains(200) && codes.contains(299) && codes.contains(410));
        assert!(!codes.contains(300) && !codes.contains(199) && !codes.contains(409));
        assert_eq!(codes.as_str(), "200-299, 410");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            " ",
            ",",
            "200,",
            ",200",
            "20",
            "2000",
            "99",
            "099",
            "600",
            "299-200",
            "200-",
            "-200",
            "200--299",
            "200-299-300",
            "2xx",
            "+20",
            "200;201",
            "２００",
            "200 - 299",
        ] {
            assert_eq!(text.parse::<ExpectedStatusCodes>(), Err(InvalidStatusCodes), "{text:?}");
        }
    }
}
