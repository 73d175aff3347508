//! The address of the API for commands that people copy.

use std::net::Ipv4Addr;

use http::{HeaderMap, HeaderName, header};

use super::DashboardParts;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns the address of the API as the visitor's browser reaches it. It contains no quotes, so a
/// shell line can quote it.
pub(super) fn api_address(dashboard: &DashboardParts, headers: &HeaderMap) -> String {
    format!("{}{}/v1", origin(headers), dashboard.base_path)
}

/// Returns the scheme and the host of a request. The client chooses both headers, so a host with
/// other characters is replaced.
fn origin(headers: &HeaderMap) -> String {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".:-[]".contains(letter);
    let is_host = |host: &&str| !host.is_empty() && host.chars().all(is_plain);
    let host = text(header::HOST).filter(is_host).unwrap_or("localhost");
    let scheme = match text(FORWARDED_PROTO) {
        Some("http") => "http",
        Some("https") => "https",
        _ if is_local(host) => "http",
        _ => "https",
    };
    format!("{scheme}://{host}")
}

/// Returns `true` if a host, with or without a port, is this machine.
fn is_local(host: &str) -> bool {
    let is_port = |text: &str| text.chars().all(|letter| letter.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(given: &[(&'static str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        origin(&headers)
    }

    #[test]
    fn the_scheme_is_that_of_the_proxy_or_fits_the_host() {
        for (host, expected) in [
            ("localhost", "http://localhost"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("[::1]", "http://[::1]"),
            ("a.example", "https://a.example"),
            ("[2001:db8::1]:443", "https://[2001:db8::1]:443"),
            ("localhost.example", "https://localhost.example"),
            ("127.0.0.1.example", "https://127.0.0.1.example"),
        ] {
            assert_eq!(of(&[("host", host)]), expected);
        }
        let forwarded = |scheme| of(&[("host", "a.example"), ("x-forwarded-proto", scheme)]);
        assert_eq!(forwarded("http"), "http://a.example");
        assert_eq!(forwarded("javascript"), "https://a.example");
    }

    #[test]
    fn a_host_with_other_characters_is_replaced() {
        for host in ["", "a.example'; x", "a b", "a$(b)", "user@a.example", "a/b"] {
            assert_eq!(of(&[("host", host)]), "http://localhost", "{host}");
        }
        assert_eq!(of(&[]), "http://localhost");
    }
}
