//! The id of a request, in its answer and in the log.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::runtime::Random;

/// The header that carries the id in requests and in answers.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id from a client, in characters.
const MAX_CHARS: usize = 64;

/// A request's id.
#[derive(Clone, Debug)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the client's id if it has 1 to 64 letters, digits, `_`, `-` and `.`; otherwise a new
    /// one.
    pub(super) fn of(headers: &HeaderMap, random: &Random) -> Self {
        if let Some(given) = headers.get(HEADER).filter(|given| is_sane(given.as_bytes())) {
            return Self(given.clone());
        }
        let made = format!("{:032x}", random.bits());
        Self(made.try_into().expect("hexadecimal digits are allowed in headers"))
    }

    /// Returns the id as a text.
    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Returns the id as the value of a header.
    pub(super) fn into_header(self) -> HeaderValue {
        self.0
    }
}

fn is_sane(id: &[u8]) -> bool {
    let letters = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    (1..=MAX_CHARS).contains(&id.len()) && id.iter().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_ids_are_kept_and_others_replaced() {
        let random = Random::seeded(1);
        let id = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, given.parse().expect("a header's value"));
            RequestId::of(&headers, &random).as_str().to_owned()
        };
        for sane in ["a", "A-z_0.9", &"x".repeat(64)] {
            assert_eq!(id(sane), sane);
        }
        for other in ["", "a b", "a,b", "{}", &"x".repeat(65)] {
            assert_eq!(id(other).len(), 32, "{other:?}");
        }
        assert_ne!(id(""), id(""));
    }
}
