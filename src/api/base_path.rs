//! The path prefix under which a deployment mounts all routes.

use std::str::FromStr;

/// A path prefix such as `/api`, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(String);

/// The error for a text that is not a valid prefix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "must be empty or segments of letters, digits, '-', '_', '.' and '~', each after a '/', such \
     as /api"
)]
pub struct InvalidBasePath;

impl BasePath {
    /// Returns the prefix without a trailing slash. Empty if there is none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if a path leads to the API in any spelling, such as another letter case or
    /// repeated slashes. Most of these spellings are not served, but such calls are checked and
    /// counted like all others.
    pub(super) fn leads_to_api(&self, path: &str) -> bool {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let mut expected = self.0.split('/').filter(|segment| !segment.is_empty()).chain(["v1"]);
        expected.all(|name| segments.next().is_some_and(|given| given.eq_ignore_ascii_case(name)))
    }
}

impl FromStr for BasePath {
    type Err = InvalidBasePath;

    /// Parses a prefix. One trailing slash is dropped.
    fn from_str(text: &str) -> Result<Self, InvalidBasePath> {
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Ok(Self::default());
        }
        let rest = text.strip_prefix('/').ok_or(InvalidBasePath)?;
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let valid = |segment: &str| {
            !segment.is_empty()
                && segment.bytes().all(letters)
                && !segment.chars().all(|c| c == '.')
        };
        if rest.split('/').all(valid) { Ok(Self(text.to_owned())) } else { Err(InvalidBasePath) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_checked() {
        for (text, path) in [("", ""), ("/", ""), ("/api", "/api"), ("/a/b-1/", "/a/b-1")] {
            assert_eq!(text.parse::<BasePath>().expect(text).as_str(), path);
        }
        for text in ["api", "//", "/a//b", "/{id}", "/a b", "/..", "/a?b", "/é"] {
            assert_eq!(text.parse::<BasePath>(), Err(InvalidBasePath), "{text}");
        }
    }

    #[test]
    fn every_spelling_of_the_api_is_recognized() {
        let plain = BasePath::default();
        for path in ["/v1", "/v1/", "//v1//schedules", "/V1/jobs", "/v1/x/y"] {
            assert!(plain.leads_to_api(path), "{path}");
        }
        for path in ["/", "", "*", "/v2/schedules", "/docs", "/api/v1/jobs"] {
            assert!(!plain.leads_to_api(path), "{path}");
        }
        let mounted: BasePath = "/api".parse().expect("valid");
        assert!(mounted.leads_to_api("//API/v1/jobs"));
        assert!(!mounted.leads_to_api("/v1/jobs"));
    }
}
