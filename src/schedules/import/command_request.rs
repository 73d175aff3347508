//! The request of a command that calls curl or wget.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::refused_line::RefusedLine;
use crate::domain::headers::headers_text;

/// The maximum length of the name of an imported schedule, in characters.
const MAX_NAME: usize = 100;

/// The request of a command, while its options are read.
#[derive(Debug, Default)]
pub struct CommandRequest {
    /// The method, if an option names it.
    pub method: Option<String>,
    /// The body, if an option gives one.
    pub body: Option<String>,
    /// The characters by which the program makes several URLs of one.
    pub pattern: &'static [char],
    url: Option<String>,
    headers: Vec<(String, String)>,
    /// Headers that are sent unless the command gives others of the same names.
    defaults: Vec<(String, String)>,
    timeout_seconds: Option<u64>,
    attempts: Option<u64>,
}

impl CommandRequest {
    /// Creates a request without options. The program makes several URLs of one by the characters
    /// in `pattern`.
    pub fn new(pattern: &'static [char]) -> Self {
        Self { pattern, ..Self::default() }
    }

    /// Sets the URL. A URL without a scheme gets `http`, as in curl and wget.
    pub fn set_url(&mut self, url: &str) -> Result<(), RefusedLine> {
        if self.url.is_some() {
            return Err(RefusedLine::ManyUrls);
        }
        let scheme = if url.contains("://") { "" } else { "http://" };
        self.url = Some(format!("{scheme}{url}"));
        Ok(())
    }

    /// Adds a header from its line, such as `Accept: text/plain`.
    pub fn add_header(&mut self, option: &str, line: &str) -> Result<(), RefusedLine> {
        if line.starts_with('@') {
            return Err(RefusedLine::ReadsFile(option.to_owned()));
        }
        let expected = "a name, a colon and a value";
        let wrong = || RefusedLine::Value { option: option.to_owned(), expected };
        let (name, value) = match line.strip_suffix(';') {
            // Curl sends a header without a value only in this form.
            Some(name) if !name.contains(':') => (name, ""),
            _ => match line.split_once(':').ok_or_else(wrong)? {
                (_, value) if value.trim().is_empty() => return Err(wrong()),
                pair => pair,
            },
        };
        self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        Ok(())
    }

    /// Adds a header that is sent unless another option gives one of this name, now or later. The
    /// first default of a name is kept.
    pub fn add_default(&mut self, name: &str, value: &str) {
        if self.defaults.iter().all(|(given, _)| given != name) {
            self.defaults.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Adds the credentials of HTTP's basic authentication.
    pub fn add_credentials(&mut self, user: &str, password: &str) {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        self.add_default("Authorization", &format!("Basic {encoded}"));
    }

    /// Sets the timeout from a number of seconds, which is rounded up. 0 means no timeout, so the
    /// schedule gets its default.
    pub fn set_timeout(&mut self, option: &str, text: &str) -> Result<(), RefusedLine> {
        let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
        let expected = "a number of seconds";
        let wrong = || RefusedLine::Value { option: option.to_owned(), expected };
        let rounded = std::time::Duration::from_secs_f64(seconds.ok_or_else(wrong)?.ceil());
        self.timeout_seconds = Some(rounded.as_secs()).filter(|seconds| *seconds > 0);
        Ok(())
    }

    /// Sets the number of attempts from the value of an option. `more` is the number of attempts
    /// that the option does not count.
    pub fn set_attempts(&mut self, option: &str, text: &str, more: u64) -> Result<(), RefusedLine> {
        let expected = "a whole number";
        let wrong = || RefusedLine::Value { option: option.to_owned(), expected };
        let number = text.parse::<u32>().map_err(|_| wrong())?;
        self.attempts = Some(u64::from(number) + more);
        Ok(())
    }

    /// Returns the fields of the schedule that the command gives, with the names of the API.
    pub fn into_fields(mut self) -> Result<Map<String, Value>, RefusedLine> {
        let url = self.url.ok_or(RefusedLine::NoUrl)?;
        if without_address(&url).contains(self.pattern) {
            return Err(RefusedLine::UrlPattern);
        }
        let usual = if self.body.is_some() { "POST" } else { "GET" };
        let method = self.method.unwrap_or_else(|| usual.to_owned());
        if self.body.is_some() && method == "GET" {
            return Err(RefusedLine::BodyOfGet);
        }
        for (name, value) in self.defaults {
            if !self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(&name)) {
                self.headers.push((name, value));
            }
        }
        let fields = [
            ("name", Some(Value::from(name(&method, &url)))),
            ("httpMethod", Some(Value::from(method))),
            ("endpoint", Some(Value::from(url))),
            ("headers", headers_text(&self.headers).map(Value::from)),
            ("body", self.body.map(Value::from)),
            ("timeoutSeconds", self.timeout_seconds.map(Value::from)),
            ("maxRetries", self.attempts.map(Value::from)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Ok(given.collect())
    }
}

/// Returns a URL without an address of IPv6 and its brackets.
fn without_address(url: &str) -> Cow<'_, str> {
    let parts = || {
        let (before, rest) = url.split_once('[')?;
        let (address, after) = rest.split_once(']')?;
        let (_, user) = before.split_once("://")?;
        let is_host = (user.is_empty() || user.ends_with('@')) && !user.contains(['/', '?', '#']);
        (is_host && address.parse::<Ipv6Addr>().is_ok()).then(|| format!("{before}{after}"))
    };
    parts().map_or(Cow::Borrowed(url), Cow::Owned)
}

/// Returns the name of a schedule: the method, the host and the path. The other parts of the URL
/// may be secrets.
fn name(method: &str, url: &str) -> String {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let name = format!("{method} {host}{}", path.trim_end_matches('/'));
    name.chars().take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_secret() {
        assert_eq!(
            name("GET", "https://u:p@a.example:8080/b/c/?token=1#d"),
            "GET a.example:8080/b/c"
        );
        assert_eq!(name("POST", "http://a.example/"), "POST a.example");
        assert_eq!(name("GET", &format!("http://{}", "ü".repeat(300))).chars().count(), 100);
    }

    #[test]
    fn a_default_is_kept_once() {
        let mut request = CommandRequest::default();
        for value in ["a", "b"] {
            request.add_default("User-Agent", value);
        }
        assert_eq!(request.defaults, [("User-Agent".to_owned(), "a".to_owned())]);
    }
}
