//! The URL that a schedule calls.

use std::net::IpAddr;

use http::Uri;
use url::{Position, Url};

/// The maximum length of a URL, in characters.
const MAX_URL_CHARS: usize = 2_048;
/// The maximum lengths of a name and of a label in DNS, in bytes (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// An absolute `http` or `https` URL that can be requested, in its one canonical form.
///
/// It is parsed as browsers parse URLs (WHATWG), so that every spelling of an address (decimal,
/// octal, hex, short, full-width) becomes the address that it means. Input that this standard
/// silently repairs (blanks, control characters, backslashes, missing slashes) is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    host: Host,
    port: u16,
}

/// The host of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address; IPv6 forms that stand for an IPv4 address are not unpacked.
    Address(IpAddr),
    /// A name: lower-case ASCII (IDNA for others), without a trailing dot.
    Name(Box<str>),
}

/// The error for a text that is not such a URL.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("Must be a valid URL")]
pub struct InvalidUrl;

impl Endpoint {
    /// Reads a URL: absolute `http` or `https`, a host, at most 2048 characters, no user info. A
    /// fragment is allowed and dropped.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        check_spelling(text)?;
        let mut url = Url::parse(text).map_err(|_| InvalidUrl)?;
        url.set_fragment(None);
        if let Some(name) = url.domain().and_then(|name| name.strip_suffix('.')) {
            let name = name.to_owned();
            url.set_host(Some(&name)).map_err(|_| InvalidUrl)?;
        }
        let host = match url.host().ok_or(InvalidUrl)? {
            url::Host::Ipv4(address) => Host::Address(address.into()),
            url::Host::Ipv6(address) => Host::Address(address.into()),
            url::Host::Domain(name) if is_name(name) => Host::Name(name.into()),
            url::Host::Domain(_) => return Err(InvalidUrl),
        };
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(InvalidUrl)?;
        // A URL that does not fit a request line is refused here rather than at every run.
        url.as_str().parse::<Uri>().map_err(|_| InvalidUrl)?;
        Ok(Self { url, host, port })
    }

    /// Returns `true` if it is called over TLS.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the port; the scheme's default if none is given.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `host`, or `host:port` if the port is not the scheme's default. It is the key of the
    /// caps per host, and the `Host` header.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// Returns the URL to request, without a fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// Refuses input that the parser would repair or hide.
fn check_spelling(text: &str) -> Result<(), InvalidUrl> {
    if text.len() > MAX_URL_CHARS && text.chars().count() > MAX_URL_CHARS {
        return Err(InvalidUrl);
    }
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'\\') {
        return Err(InvalidUrl);
    }
    let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(InvalidUrl);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') { Err(InvalidUrl) } else { Ok(()) }
}

/// Returns `true` if the name fits into DNS and into a `Host` header.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let letters = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        !label.is_empty() && label.len() <= MAX_LABEL && letters
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of(url: &str) -> String {
        match Endpoint::parse(url).expect(url).host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.into(),
        }
    }

    #[test]
    fn an_endpoint_has_one_form() {
        let endpoint = Endpoint::parse("HTTPS://ExAmple.COM.:443/a/../b?q=1 #frag".trim_end());
        assert_eq!(endpoint, Err(InvalidUrl), "a blank inside");
        let endpoint = Endpoint::parse("HTTPS://ExAmple.COM.:443/a/../b?q=1#frag").expect("valid");
        assert!(endpoint.is_https());
        assert_eq!(endpoint.host(), &Host::Name("example.com".into()));
        assert_eq!((endpoint.port(), endpoint.authority()), (443, "example.com"));
        assert_eq!(endpoint.url().as_str(), "https://example.com/b?q=1");

        let endpoint = Endpoint::parse("http://example.com:8080").expect("valid");
        assert_eq!((endpoint.port(), endpoint.authority()), (8080, "example.com:8080"));
        assert_eq!(endpoint.url().as_str(), "http://example.com:8080/");
        let endpoint = Endpoint::parse("http://[2001:DB8::1]:81/?x").expect("valid");
        assert_eq!(endpoint.authority(), "[2001:db8::1]:81");
        assert_eq!(endpoint.url().as_str(), "http://[2001:db8::1]:81/?x");
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0X7F.1/",
            "http://017700000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://①②⑦.⓪.⓪.①/",
            "http://１２７.０.０.１/",
            "http://127。0。0。1/",
            "http://%31%32%37.0.0.1/",
            "http://127.0.0.1#example.com/",
            "http://127.0.0.1?@example.com/",
        ] {
            assert_eq!(host_of(url), "127.0.0.1", "{url}");
        }
        assert_eq!(host_of("http://0/"), "0.0.0.0");
        assert_eq!(host_of("http://[::ffff:7f00:1]/"), "::ffff:127.0.0.1");
        assert_eq!(host_of("http://[0:0:0:0:0:ffff:127.0.0.1]/"), "::ffff:127.0.0.1");
        assert_eq!(host_of("http://[::127.0.0.1]/"), "::7f00:1");
    }

    #[test]
    fn names_are_ascii_and_lower_case() {
        assert_eq!(host_of("http://BÜCHER.example/"), "xn--bcher-kva.example");
        assert_eq!(host_of("http://LOCALHOST./"), "localhost");
        assert_eq!(host_of("http://аpple.com/"), "xn--pple-43d.com", "a Cyrillic letter shows");
        assert_eq!(host_of("http://a_b.example/"), "a_b.example");
        assert_eq!(host_of("http://127.0.0.1.example.com/"), "127.0.0.1.example.com");
    }

    #[test]
    fn anything_but_a_plain_absolute_url_is_refused() {
        let long_name = format!("http://{}.example/", "a".repeat(64));
        let many_labels = format!("http://{}example/", "a.".repeat(130));
        for url in [
            "",
            "example.com",
            "/v1/x",
            "//example.com/",
            "http:example.com",
            "http:/example.com",
            "http:///example.com",
            "http://",
            "http://?x",
            "https://#x",
            " http://example.com/",
            "http://example.com/ ",
            "http://exam\tple.com/",
            "http://example.com/\r\nX: y",
            "http://example.com/\0",
            "\u{feff}http://example.com/",
            "ht\ntp://example.com/",
            "http:\\\\example.com\\",
            "http://example.com\\@127.0.0.1/",
            "http://example.com@127.0.0.1/",
            "http://user:pass@127.0.0.1/",
            "http://@example.com/",
            "http://user%40x@example.com/",
            "http://example.com:0/",
            "http://example.com:99999/",
            "http://example.com:-1/",
            "http://example.com:http/",
            "http://127.0.0.1%00.example.com/",
            "http://127.0.0.1%2eexample.com:x/",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[::1/",
            "http://::1/",
            "http://1.2.3.4.5/",
            "http://256.0.0.1/",
            "http://a..b/",
            "http://localhost../",
            "http://./",
            "http://{{host}}/",
            "http://a!b/",
            "http://xn--a/",
            "file:///etc/passwd",
            "ftp://x/",
            "gopher://127.0.0.1:6379/_FLUSHALL",
            "data:,x",
            "unix:/x",
            "javascript://example.com/%0aalert(1)",
            "ws://example.com/",
            "view-source:http://example.com/",
            &long_name,
            &many_labels,
        ] {
            assert_eq!(Endpoint::parse(url), Err(InvalidUrl), "{url:?}");
        }
    }

    #[test]
    fn the_length_counts_in_characters() {
        let url = |n: usize| format!("http://example.com/{}", "ü".repeat(n));
        let longest = Endpoint::parse(&url(2_048 - 19)).expect("at the limit");
        assert!(longest.url().path().starts_with("/%C3%BC"));
        assert_eq!(Endpoint::parse(&url(2_048 - 18)), Err(InvalidUrl));
    }

    #[test]
    fn odd_characters_reach_the_request_line_escaped_or_not_at_all() {
        let sent = |rest: &str| {
            let endpoint = Endpoint::parse(&format!("http://a{rest}")).expect(rest);
            endpoint.url()[Position::BeforePath..].to_owned()
        };
        let escaped = "/%22%3C%3E%60%7B%7D|^[]?%22%3C%3E`{}|^[]%27";
        assert_eq!(sent("/\"<>`{}|^[]?\"<>`{}|^[]'"), escaped);
        assert_eq!(sent("/%0d%0aX:%20y"), "/%0d%0aX:%20y");
        assert_eq!(sent("/%zz"), "/%zz");
    }
}
