//! Composes mails in the format of RFC 5322.

use std::fmt;
use std::time::SystemTime;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use super::error::MailError;
use crate::channels::text::one_line;
use crate::domain::user::EmailAddress;

/// The maximum length of a subject, in characters.
const MAX_SUBJECT: usize = 200;

/// A mail and its headers.
#[derive(Clone, Debug)]
pub struct MailMessage {
    /// The recipient.
    pub to: EmailAddress,
    /// The subject. Any text is allowed; it is sent as one line.
    pub subject: String,
    /// The plain text body.
    pub text: String,
    /// The HTML version of the body, if one is sent.
    pub html: Option<String>,
    /// The date; the current time if absent.
    pub date: Option<SystemTime>,
    /// The part of the Message-ID before the `@`; random if absent.
    pub message_id: Option<String>,
    /// Additional headers. A header whose value is not printable ASCII is dropped.
    pub headers: Vec<(&'static str, String)>,
}

impl MailMessage {
    /// Creates a plain text mail.
    pub fn plain(to: EmailAddress, subject: String, text: String) -> Self {
        let headers = Vec::new();
        Self { to, subject, text, html: None, date: None, message_id: None, headers }
    }
}

/// Composes the message of `letter`, with sender `from`.
pub fn compose(from: &EmailAddress, letter: &MailMessage) -> Result<Message, MailError> {
    let unusable = |error: &dyn fmt::Display| MailError::Unusable(error.to_string());
    let mailbox = |address: &EmailAddress| {
        let parsed = address.as_str().parse::<Address>().map_err(|error| unusable(&error));
        parsed.map(|address| Mailbox::new(None, address))
    };
    let id = letter.message_id.as_ref().map(|id| format!("<{id}@{}>", domain(from)));
    let mut builder = Message::builder()
        .from(mailbox(from)?)
        .to(mailbox(&letter.to)?)
        .subject(one_line(&letter.subject, MAX_SUBJECT))
        .message_id(id);
    if let Some(date) = letter.date {
        builder = builder.date(date);
    }
    for (name, value) in &letter.headers {
        if value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            // A URL must not be folded, so the library's header encoding is bypassed.
            let name = HeaderName::new_from_ascii_str(name);
            let value = HeaderValue::dangerous_new_pre_encoded(name, value.clone(), value.clone());
            builder = builder.raw_header(value);
        }
    }
    let (text, html) = (letter.text.clone(), letter.html.clone());
    let message = match html {
        Some(html) => builder.multipart(MultiPart::alternative_plain_html(text, html)),
        None => builder.header(ContentType::TEXT_PLAIN).body(text),
    };
    message.map_err(|error| unusable(&error))
}

/// Returns the domain of an address.
pub fn domain(address: &EmailAddress) -> &str {
    address.as_str().rsplit('@').next().unwrap_or("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(letter: &MailMessage) -> String {
        let from = "punctual@example.com".parse().expect("an address");
        let message = compose(&from, letter).expect("a message");
        assert_eq!(message.envelope().to().len(), 1);
        let text = String::from_utf8(message.formatted()).expect("text");
        text.split_once("\r\n\r\n").expect("headers and a body").0.to_owned()
    }

    fn letter() -> MailMessage {
        MailMessage::plain(
            "ann@example.com".parse().expect("an address"),
            "Join a\r\nBcc: x@y.example\r\n\r\nbody\u{85}\u{202e}é".to_owned(),
            "first\r\n.\r\nsecond é\nBcc: x@y.example".to_owned(),
        )
    }

    #[test]
    fn foreign_text_adds_no_header() {
        let html = Some("<p>\r\nBcc: x@y.example</p>".to_owned());
        let ours = vec![("List-Unsubscribe", "<https://a.example/\r\nBcc: x@y>".to_owned())];
        for letter in
            [letter(), MailMessage { html, ..letter() }, MailMessage { headers: ours, ..letter() }]
        {
            let headers = headers(&letter);
            let names: Vec<_> = headers
                .split("\r\n")
                .filter(|line| !line.starts_with([' ', '\t']))
                .filter_map(|line| line.split(':').next())
                .collect();
            assert!(!names.contains(&"Bcc"), "{headers}");
            assert!(headers.contains("To: ann@example.com\r\n"), "{headers}");
            assert!(!headers.contains("List-Unsubscribe"), "{headers}");
        }
    }

    #[test]
    fn a_subject_is_one_line_of_bounded_length() {
        let headers = headers(&MailMessage { subject: "a".repeat(500), ..letter() });
        let subject = headers.split("\r\n").find(|line| line.starts_with("Subject:"));
        assert!(subject.is_some_and(|line| line.len() < 300), "{headers}");
    }

    #[test]
    fn the_message_id_is_the_same_for_the_same_event() {
        let with_id = MailMessage { message_id: Some("evt_1.ch_2".to_owned()), ..letter() };
        let headers = headers(&with_id);
        assert!(headers.contains("Message-ID: <evt_1.ch_2@example.com>\r\n"), "{headers}");
    }
}
