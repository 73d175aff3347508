//! Masks secrets: a response or an error can repeat parts of the request.

use std::collections::BTreeSet;

use serde_json::Value;

/// The replacement for a secret.
const MASKED: &str = "•••";
/// Headers whose values are not secret, in lower case.
const HARMLESS: [&str; 5] =
    ["accept", "accept-language", "cache-control", "content-type", "user-agent"];
/// The minimum length of a secret in bytes. Shorter values are too common to search for.
const SHORTEST: usize = 6;

/// The secrets of a request: the values of its headers and of its query.
#[derive(Clone, Debug, Default)]
pub struct Mask(Vec<String>);

impl Mask {
    /// Collects the secrets of a request to `endpoint` with `headers`, a JSON object of strings.
    pub fn of(endpoint: &str, headers: Option<&str>) -> Self {
        let mut secrets = BTreeSet::new();
        let headers = headers.and_then(|text| serde_json::from_str::<Value>(text).ok());
        for (name, value) in headers.iter().filter_map(Value::as_object).flatten() {
            let harmless = HARMLESS.contains(&name.to_ascii_lowercase().as_str());
            let Some(text) = value.as_str().filter(|_| !harmless) else { continue };
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
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST);
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
    fn values_of_headers_and_queries_are_masked() {
        let headers = r#"{"Authorization":"Bearer abc-123-def","Content-Type":"application/json","X-Key":"k3y!longer"}"#;
        let mask = Mask::of("https://a.example/x?token=t0ken%2Fvalue&a=1", Some(headers));
        let text = "got Bearer abc-123-def, abc-123-def, k3y!longer, t0ken%2Fvalue and t0ken/value; application/json 1";
        assert_eq!(mask.apply(text), "got •••, •••, •••, ••• and •••; application/json 1");
        assert_eq!(Mask::of("not a url", Some("[]")).apply("as it is"), "as it is");
    }
}
