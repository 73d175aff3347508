//! The settings of traces: the collector and the sampling rate.

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::reader::{ParseResult, SettingsReader, SourceValue, number, text};
use super::users::authorities;
use crate::telemetry::traces::TraceSettings;

/// Reads the settings of traces. Returns `None` if no collector is configured.
pub(super) fn read(reader: &mut SettingsReader) -> Option<TraceSettings> {
    let url = reader.read("traces.otlp_url", collector);
    let ca_certificates = reader.read("traces.ca_file", authorities);
    let headers = reader.read("traces.headers_file", headers);
    let one_in = reader.read("traces.one_in", number(1..=1_000_000));
    if ca_certificates.is_some() && !url.starts_with("https:") {
        reader.mistake("traces.ca_file", "is used by https:// only, see traces.otlp_url");
    }
    (!url.is_empty()).then_some(TraceSettings { url, ca_certificates, headers, one_in })
}

/// Parses a URL of only a scheme, a host and a port. An empty text is allowed.
fn collector(raw: &SourceValue) -> ParseResult<String> {
    let text = text(raw)?;
    let is_plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    if text.is_empty() {
        return Ok(text);
    }
    match Url::parse(&text) {
        Ok(url) if is_plain(&url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        _ => Err("must be a scheme, a host and a port, such as http://collector:4317".to_owned()),
    }
}

/// Reads the headers in a file, one per line. Errors do not quote the content, because headers may
/// be secrets.
fn headers(raw: &SourceValue) -> ParseResult<HeaderMap> {
    let path = text(raw)?;
    if path.is_empty() {
        return Ok(HeaderMap::new());
    }
    let read = std::fs::read_to_string(&path);
    let lines = read.map_err(|error| format!("the file {path} cannot be read: {error}"))?;
    let lines = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let wrong =
                || format!("line {} of {path} must be a name, a colon and a value", number + 1);
            header(line).ok_or_else(wrong)
        })
        .collect()
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> SourceValue {
        SourceValue::Text(text.to_owned())
    }

    #[test]
    fn a_collector_is_a_host_and_a_port() {
        for (given, read) in [
            ("", ""),
            ("http://collector:4317", "http://collector:4317"),
            ("HTTPS://[::1]:4317/", "https://[::1]:4317"),
        ] {
            assert_eq!(collector(&raw(given)), Ok(read.to_owned()));
        }
        for wrong in
            ["collector:4317", "grpc://c:1", "http://c/v1/traces", "http://u:p@c", "http://c/?a"]
        {
            assert!(collector(&raw(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = raw(&file.path().display().to_string());
        std::fs::write(file.path(), "authorization: Bearer a:b\n\nX-Tenant:7\n").expect("written");
        let read = headers(&path).expect("headers");
        assert_eq!(
            (&read["authorization"], &read["x-tenant"]),
            (&HeaderValue::from_static("Bearer a:b"), &HeaderValue::from_static("7"))
        );
        assert!(!format!("{read:?}").contains("Bearer"));

        std::fs::write(file.path(), "a: b\nsecret without a colon\n").expect("written");
        let told = headers(&path).expect_err("wrong");
        assert!(told.contains("line 2 of") && !told.contains("secret"), "{told}");
        assert_eq!(headers(&raw("")), Ok(HeaderMap::new()));
        assert!(headers(&raw("/nowhere")).is_err());
    }
}
