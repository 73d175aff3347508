//! The request of a job as it is sent, and the last response as it was received.

use http::StatusCode;
use maud::{Markup, html};

use super::pretty::pretty;
use crate::dashboard::text::read_headers;
use crate::dashboard::widgets;
use crate::domain::alert::{masked_header, masked_url};
use crate::domain::job::Job;
use crate::domain::schedule::HttpMethod;
use crate::outbound::content_type;

/// A request as a page shows it. Values of headers and in the query of the URL may be secrets, so
/// they are masked. Only headers that are known to be harmless, such as `Accept`, are shown in
/// full.
pub(in crate::dashboard) struct ShownRequest<'a> {
    method: &'a str,
    endpoint: String,
    headers: Vec<(String, String)>,
    /// The body that is sent.
    body: Option<&'a str>,
}

impl<'a> ShownRequest<'a> {
    /// Returns a request with its secrets masked.
    pub(in crate::dashboard) fn new(
        method: &'a str,
        url: &str,
        mut headers: Vec<(String, String)>,
        body: Option<&'a str>,
    ) -> Self {
        for (name, value) in &mut headers {
            *value = masked_header(name, value).to_owned();
        }
        let body = body.filter(|body| !body.is_empty());
        Self { method, endpoint: masked_url(url), headers, body }
    }

    fn of(job: &'a Job) -> Self {
        let body = job.body.as_deref().filter(|_| job.http_method != HttpMethod::Get);
        let headers = read_headers(job.headers.as_deref());
        Self::new(job.http_method.as_str(), &job.endpoint, headers, body)
    }

    /// Renders the request. `added` names the headers that are not listed.
    pub(in crate::dashboard) fn render(&self, added: &str) -> Markup {
        html! {
            p { code { (self.method) " " (self.endpoint) } }
            (header_table("Headers of the request", &self.headers))
            @if let Some(body) = self.body { (body_text("Body of the request", body)) }
            p.hint {
                "Values in the query of the URL and values of headers are shown as •••, except for "
                "harmless headers such as Accept. Replace ••• before you run the curl command. The "
                "body is not masked. " (added)
            }
            (widgets::curl("Send this request with curl", &self.curl()))
        }
    }

    /// Returns the command that sends the same request from a shell, once its masked values are
    /// filled in.
    fn curl(&self) -> String {
        let mut command = format!("curl -i -X {} {}", self.method, quoted(&self.endpoint));
        let mut add = |option: &str, value: &str| {
            command.push_str(&format!(" \\\n  {option} {}", quoted(value)));
        };
        for (name, value) in &self.headers {
            match value.as_str() {
                // Curl sends a header without a value only in this form.
                "" => add("-H", &format!("{name};")),
                value => add("-H", &format!("{name}: {value}")),
            }
        }
        if let Some(body) = self.body {
            let is_typed = |name: &String| name.eq_ignore_ascii_case("content-type");
            if !self.headers.iter().any(|(name, _)| is_typed(name)) {
                add("-H", &format!("content-type: {}", content_type(body)));
            }
            add("--data-raw", body);
        }
        command
    }
}

/// Renders the request of a job.
pub(super) fn request(job: &Job) -> Markup {
    let added = "The service adds headers of its own, such as Punctual-Job-Id.";
    html! {
        h2 { "Request" }
        @if job.unreadable.headers || job.unreadable.body {
            p.message { "A part of the stored request cannot be decrypted, so it is missing here." }
        }
        (ShownRequest::of(job).render(added))
    }
}

/// Renders the last response of a job, if there is one.
pub(super) fn response(job: &Job) -> Markup {
    let Some(status) = job.status_code else { return html! {} };
    let headers = read_headers(job.response_headers.as_deref());
    let body = job.response.as_deref().unwrap_or_default();
    html! {
        h2 { "Response" }
        (received(status, &headers, body, job.response_truncated))
    }
}

/// Renders a response as it was received.
pub(in crate::dashboard) fn received(
    status: u16,
    headers: &[(String, String)],
    body: &str,
    is_truncated: bool,
) -> Markup {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    html! {
        p {
            "Status " strong { (status) }
            @if let Some(reason) = reason { " " (reason) }
        }
        (header_table("Headers of the response", headers))
        @if body.is_empty() {
            p.soft { "The body is empty." }
        } @else {
            (body_text("Body of the response", body))
        }
        @if is_truncated {
            p.hint { "The response was longer. Only its beginning is kept." }
        }
    }
}

fn header_table(caption: &str, headers: &[(String, String)]) -> Markup {
    html! {
        @if !headers.is_empty() {
            div.scroll {
                table.headers {
                    caption.hidden { (caption) }
                    tbody {
                        @for (name, value) in headers {
                            tr { th scope="row" { (name) } td { code { (value) } } }
                        }
                    }
                }
            }
        }
    }
}

fn body_text(label: &str, body: &str) -> Markup {
    let indented = pretty(body);
    html! {
        pre role="region" tabindex="0" aria-label=(label) {
            code { (indented.as_deref().unwrap_or(body)) }
        }
    }
}

/// Quotes a text for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_quotes_stays_one_word() {
        assert_eq!(quoted("it's $HOME; `x`"), r"'it'\''s $HOME; `x`'");
        assert_eq!(read_headers(Some(r#"{"b":"2","a":"1"}"#)).len(), 2);
        assert!(read_headers(Some("not JSON")).is_empty());
        assert_eq!(content_type("{}"), "application/json");
        assert_eq!(content_type("hello"), "text/plain; charset=utf-8");
    }
}
