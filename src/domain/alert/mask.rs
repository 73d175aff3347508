//! Masks secrets: a response or an error can repeat parts of the request.

use std::collections::BTreeSet;

use serde_json::Value;

/// The replacement for a secret.
const MASKED: &str = "•••";
/// Headers whose values are not secret, in lower case.
const HARMLESS: [&str; 5] =
    ["accept", "accept-language", "cache-control", "content-type", "user-agent"];
/// The minimum length of a secret in bytes. Shorter values are too common to search for.
const MIN_SECRET_BYTES: usize = 6;

/// The secrets of a request: the values of its headers and of its query.
#[derive(Clone, Debug, Default)]
pub struct Mask(Vec<String>);

impl Mask {
    /// Collects the secrets of a request to `endpoint` with `headers`, a JSON object of strings.
    pub fn of(endpoint: &str, headers: Option<&str>) -> Self {
        let mut secrets = BTreeSet::new();
        let headers = headers.and_then(|text| serde_json::from_str::<Value>(text).ok());
        for (name, value) in headers.iter().filter_map(Value::as_object).flatten() {
            let Some(text) = value.as_str().filter(|_| !is_harmless(name)) else { continue };
            secrets.insert(text.to_owned());
            // "Bearer TOKEN": a response may repeat the token alone.
            secrets.extend(text.split_whitespace().map(str::to_owned));
        }
        if let Ok(url) = url::Url::parse(endpoint) {
            secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
            let raw = url.query().unwrap_or_default().split('&');
            let values = raw.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
            secrets.extend(values.map(str::to_owned));
        }
        Self::default().with(secrets)
    }

    /// Adds these secrets to the mask.
    pub fn with(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        self.0.extend(secrets.flat_map(|secret| spellings(&secret)));
        // The longest comes first, because a shorter one may be a part of it.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self
    }

    /// Returns the text with its secrets masked.
    pub fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASKED))
    }
}

/// Returns the value of a header as a page shows it. The values of headers that are known to be
/// harmless, such as `Accept`, stay; all others are masked.
pub(crate) fn masked_header<'a>(name: &str, value: &'a str) -> &'a str {
    if is_harmless(name) { value } else { MASKED }
}

/// Returns a URL as a page shows it: the password and the values in the query are masked. A part of
/// the query without a name and a user without a password may be tokens, so they are masked too.
pub(crate) fn masked_url(url: &str) -> String {
    // The fragment is not sent.
    let url = url.split('#').next().unwrap_or_default();
    let Some((address, query)) = url.split_once('?') else { return masked_user(url) };
    let pairs: Vec<String> = query.split('&').map(masked_pair).collect();
    format!("{}?{}", masked_user(address), pairs.join("&"))
}

fn masked_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}={MASKED}"),
        None if !pair.is_empty() => MASKED.to_owned(),
        _ => pair.to_owned(),
    }
}

/// Masks the user information of a URL without a query.
fn masked_user(address: &str) -> String {
    let parts = address.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@')?;
        Some((scheme, user, host, path))
    });
    let Some((scheme, user, host, path)) = parts else { return address.to_owned() };
    match user.split_once(':') {
        Some((name, password)) if !password.is_empty() => {
            format!("{scheme}://{name}:{MASKED}@{host}{path}")
        }
        _ => format!("{scheme}://{MASKED}@{host}{path}"),
    }
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name.to_ascii_lowercase().as_str())
}

/// Returns a secret in the forms in which a response may repeat it: as it is, in JSON, in JSON that
/// escapes slashes as PHP does, in a URL and in HTML.
fn spellings(secret: &str) -> BTreeSet<String> {
    let quoted = Value::from(secret).to_string();
    let json = quoted[1..quoted.len() - 1].to_owned();
    let slashes = json.replace('/', "\\/");
    let encoded = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let html = html.replace('"', "&quot;");
    BTreeSet::from([secret.to_owned(), json, slashes, encoded, html])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_as_answers_spell_them() {
        let mask = Mask::default().with(["ab/\"c&d".to_owned()]);
        for text in ["ab/\"c&d", r#"ab/\"c&d"#, r#"ab\/\"c&d"#, "ab%2F%22c%26d", "ab/&quot;c&amp;d"]
        {
            assert_eq!(mask.apply(text), "•••", "{text}");
        }
    }

    #[test]
    fn pages_show_the_names_of_headers_and_the_values_of_harmless_ones() {
        assert_eq!(masked_header("User-Agent", "a/1"), "a/1");
        for name in ["Authorization", "X-Note", "Cookie", ""] {
            assert_eq!(masked_header(name, "k"), "•••", "{name}");
        }
    }

    #[test]
    fn pages_show_a_url_without_its_secrets() {
        for (url, shown) in [
            ("https://a.example/x/y", "https://a.example/x/y"),
            ("https://user:k@a.example/x?a=1", "https://user:•••@a.example/x?a=•••"),
            ("https://token@a.example", "https://•••@a.example"),
            ("https://token:@a.example/", "https://•••@a.example/"),
            ("http://u:p@q@a.example:8080/@b", "http://u:•••@a.example:8080/@b"),
            ("http://[::1]:80/?a=1&b=&c=2=3#d", "http://[::1]:80/?a=•••&b=&c=•••"),
            ("https://a.example?token", "https://a.example?•••"),
            ("https://a.example/?", "https://a.example/?"),
            ("https://a.example/x?next=https://u:p@b.example", "https://a.example/x?next=•••"),
            ("not a url", "not a url"),
        ] {
            assert_eq!(masked_url(url), shown, "{url}");
        }
    }

    #[test]
    fn values_of_headers_and_queries_are_masked() {
        let headers = r#"{"Authorization":"Bearer abc-123-def","Content-Type":"application/json","X-Key":"k3y!longer"}"#;
        let mask = Mask::of("https://a.example/x?token=t0ken%2Fvalue&a=1", Some(headers));
        let text = "got Bearer abc-123-def, abc-123-def, k3y!longer, t0ken%2Fvalue and t0ken/value; application/json 1";
        assert_eq!(mask.apply(text), "got •••, •••, •••, ••• and •••; application/json 1");
        assert_eq!(Mask::of("not a url", Some("[]")).apply("as it is"), "as it is");
    }
}
