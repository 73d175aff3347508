//! The headers that a user sets on a request.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The maximum number of headers.
const MAX_HEADERS: usize = 64;
/// The maximum length of the JSON text, in bytes.
const MAX_JSON_BYTES: usize = 16 * 1_024;
/// The maximum length of a refused name in an error message, in characters.
const SHOWN: usize = 64;

/// The reason why the headers of a request are refused. The message names the header, never its
/// value.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RefusedHeaders {
    /// The text is not a JSON object of strings, or it exceeds a limit.
    #[error("Headers must be a valid JSON object of strings")]
    NotAnObject,
    /// HTTP does not allow the name.
    #[error("Header name {0} is not valid: use letters, digits and hyphens")]
    InvalidName(String),
    /// HTTP does not allow the value.
    #[error(
        "The value of header {0} is not valid: use printable ASCII characters, blanks and tabs"
    )]
    InvalidValue(String),
    /// The same name appears twice; case does not matter.
    #[error("Header {0} is given more than once")]
    Duplicate(String),
    /// Only the service may set this header.
    #[error("Header {0} cannot be set: it belongs to the connection or to the service")]
    Reserved(String),
}

/// Reads a JSON object of strings as headers: at most 64 names and 16 KiB, each name once.
pub fn parse_headers(json: &str) -> Result<HeaderMap, RefusedHeaders> {
    if json.len() > MAX_JSON_BYTES {
        return Err(RefusedHeaders::NotAnObject);
    }
    let Entries(entries) = serde_json::from_str(json).map_err(|_| RefusedHeaders::NotAnObject)?;
    if entries.len() > MAX_HEADERS {
        return Err(RefusedHeaders::NotAnObject);
    }
    let mut headers = HeaderMap::with_capacity(entries.len());
    for (name, value) in entries {
        let parsed = name.parse::<HeaderName>().ok().filter(|_| !name.is_empty());
        let Some(parsed) = parsed else {
            return Err(RefusedHeaders::InvalidName(shown(&name)));
        };
        if is_reserved(parsed.as_str()) {
            return Err(RefusedHeaders::Reserved(shown(&name)));
        }
        // HTTP allows bytes beyond ASCII, but servers interpret them in different ways.
        let value = HeaderValue::from_str(&value).ok().filter(|_| value.is_ascii());
        let Some(value) = value else {
            return Err(RefusedHeaders::InvalidValue(shown(&name)));
        };
        if headers.insert(parsed, value).is_some() {
            return Err(RefusedHeaders::Duplicate(shown(&name)));
        }
    }
    Ok(headers)
}

/// Returns the text of a JSON object of strings; `None` if there are no headers. A name that
/// appears twice is kept, so that [`parse_headers`] refuses it.
pub fn headers_text(headers: &[(String, String)]) -> Option<String> {
    if headers.is_empty() {
        return None;
    }
    let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
    let entry = |(name, value): &(String, String)| format!("{}:{}", quoted(name), quoted(value));
    let entries: Vec<String> = headers.iter().map(entry).collect();
    Some(format!("{{{}}}", entries.join(",")))
}

/// Returns `true` if users may not set the header with this lower-case name: it frames the message,
/// belongs to one connection, or is the service's own.
fn is_reserved(name: &str) -> bool {
    is_framing(name) || name.starts_with("punctual-")
}

/// Returns `true` if the header with this lower-case name frames the message or belongs to one
/// connection, so that only the HTTP client may set it (RFC 9110, section 7.6.1).
pub fn is_framing(name: &str) -> bool {
    const FRAMING: [&str; 9] = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
    ];
    FRAMING.contains(&name) || name.starts_with("proxy-")
}

fn shown(name: &str) -> String {
    let name: String = name.chars().take(SHOWN).collect();
    format!("{name:?}")
}

/// The entries of an object in their order, including duplicates.
struct Entries(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_strings_becomes_headers() {
        let headers = parse_headers(r#"{"X-Api-Key": "s3cret\tx", "accept": "", "A_b.c~d": "ü"}"#);
        assert_eq!(headers, Err(RefusedHeaders::InvalidValue("\"A_b.c~d\"".into())));
        let headers = parse_headers(r#"{"X-Api-Key": "s3cret\tx", "accept": ""}"#).expect("valid");
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["x-api-key"], "s3cret\tx");
        assert_eq!(headers["accept"], "");
        assert!(parse_headers(" {} ").expect("empty").is_empty());
    }

    #[test]
    fn anything_else_is_refused_with_the_message_of_the_contract() {
        let many = |n: usize| {
            let entries: Vec<_> = (0..n).map(|i| format!("\"x-{i}\":\"v\"")).collect();
            format!("{{{}}}", entries.join(","))
        };
        assert_eq!(parse_headers(&many(64)).map(|headers| headers.len()), Ok(64));
        let deep = "[".repeat(10_000);
        let long = |n: usize| format!("{{\"x\":\"{}\"}}", "v".repeat(n - 8));
        assert!(parse_headers(&long(16 * 1_024)).is_ok());
        for json in [
            "",
            "x",
            "null",
            "[]",
            "\"{}\"",
            "{\"x\":1}",
            "{\"x\":null}",
            "{\"x\":[\"v\"]}",
            "{\"x\":\"v\"} y",
            "{\"x\":\"v\",}",
            &many(65),
            &long(16 * 1_024 + 1),
            &deep,
        ] {
            let refused = parse_headers(json).expect_err(json);
            assert_eq!(refused, RefusedHeaders::NotAnObject, "{json:.40}");
            assert_eq!(refused.to_string(), "Headers must be a valid JSON object of strings");
        }
    }

    #[test]
    fn names_and_values_that_could_break_a_request_are_refused() {
        for name in ["", "a b", "a:", "x\\r\\ny", "ü", ":authority", "a\\u0000", "(x)"] {
            let json = format!("{{\"{name}\":\"v\"}}");
            assert!(matches!(parse_headers(&json), Err(RefusedHeaders::InvalidName(_))), "{json}");
        }
        for value in ["a\\r\\nY: b", "x\\r\\n", "\\n", "\\u0000", "\\u007f", "ü", "日本"] {
            let json = format!("{{\"X\":\"{value}\"}}");
            let refused = parse_headers(&json);
            assert_eq!(refused, Err(RefusedHeaders::InvalidValue("\"X\"".into())), "{json}");
        }
    }

    #[test]
    fn reserved_names_are_refused_by_name_in_any_case() {
        for name in [
            "Host",
            "Connection",
            "Content-Length",
            "Transfer-Encoding",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "Proxy-Authorization",
            "Proxy-Connection",
            "Punctual-Job-Id",
            "PUNCTUAL-ATTEMPT",
            "hOsT",
        ] {
            let refused = parse_headers(&format!("{{\"{name}\":\"v\"}}"));
            let refused = refused.expect_err(name);
            assert!(refused.to_string().contains(name), "{refused}");
            assert!(matches!(refused, RefusedHeaders::Reserved(_)), "{refused}");
        }
        for name in ["X-Host", "Tea", "User-Agent", "Idempotency-Key", "Proxied", "Content-Type"] {
            assert!(parse_headers(&format!("{{\"{name}\":\"v\"}}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        for json in [r#"{"x":"1","x":"1"}"#, r#"{"X-a":"1","y":"2","x-A":"3"}"#] {
            assert!(matches!(parse_headers(json), Err(RefusedHeaders::Duplicate(_))), "{json}");
        }
    }
}
