//! Renders an alert as a mail with a subject, plain text and HTML.

use crate::channels::message::{Message, Tone};

const WHY: &str = "You get this mail because this address is a notification channel of Punctual.";

/// The content of a mail.
#[derive(Debug)]
pub struct MailContent {
    /// The subject.
    pub subject: String,
    /// The plain text body.
    pub text: String,
    /// The HTML body.
    pub html: String,
}

/// Renders the content. `unsubscribe` is the URL of the unsubscribe page.
pub fn render(message: &Message, unsubscribe: Option<&str>) -> MailContent {
    MailContent {
        subject: message.headline.clone(),
        text: text(message, unsubscribe),
        html: html(message, unsubscribe),
    }
}

fn text(message: &Message, unsubscribe: Option<&str>) -> String {
    let mut text = format!("{}\n\n", message.headline);
    for fact in &message.facts {
        text += &format!("{}: {}\n", fact.label, fact.value);
    }
    if let Some(excerpt) = &message.excerpt {
        text += "\nResponse:\n";
        for line in excerpt.lines() {
            text += format!("    {line}").trim_end();
            text.push('\n');
        }
    }
    if let Some(link) = &message.link {
        text += &format!("\n{}: {}\n", link.label, link.url);
    }
    text += &format!("\n-- \n{WHY}\n");
    if let Some(url) = unsubscribe {
        text += &format!("Unsubscribe: {url}\n");
    }
    text
}

fn html(message: &Message, unsubscribe: Option<&str>) -> String {
    let color = match message.tone {
        Tone::Bad => "#d93025",
        Tone::Good => "#188038",
        Tone::Neutral => "#5f6368",
    };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body style=\"margin:0;padding:24px;font:15px/1.5 sans-serif;color:#202124\">\n\
         <h1 style=\"margin:0 0 16px;padding-left:12px;border-left:4px solid {color};\
         font-size:18px\">{title}</h1>\n",
        title = escape(&message.headline),
    );
    if !message.facts.is_empty() {
        html += "<table style=\"border-collapse:collapse\">\n";
        for fact in &message.facts {
            html += &format!(
                "<tr><th style=\"padding:2px 16px 2px 0;text-align:left;vertical-align:top;\
                 font-weight:normal;color:#5f6368;white-space:nowrap\">{}</th><td>{}</td></tr>\n",
                fact.label,
                escape(&fact.value)
            );
        }
        html += "</table>\n";
    }
    if let Some(excerpt) = &message.excerpt {
        html += &format!(
            "<p style=\"margin:16px 0 4px;color:#5f6368\">Response</p>\n\
             <pre style=\"margin:0;padding:12px;background:#f1f3f4;white-space:pre-wrap;\
             overflow-wrap:anywhere\">{}</pre>\n",
            escape(excerpt)
        );
    }
    if let Some(link) = &message.link {
        let (url, label) = (escape(&link.url), link.label);
        html += &format!("<p style=\"margin:16px 0\"><a href=\"{url}\">{label}</a></p>\n");
    }
    html += &format!("<p style=\"margin:24px 0 0;font-size:12px;color:#5f6368\">{WHY}");
    if let Some(url) = unsubscribe {
        html += &format!(" <a href=\"{}\" style=\"color:#5f6368\">Unsubscribe</a>", escape(url));
    }
    html + "</p>\n</body></html>\n"
}

/// Escapes text for HTML, including attribute values.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::samples::{assert_snapshot, hostile};
    use crate::domain::alert::AlertKind;

    const UNSUBSCRIBE: &str = "https://punctual.example/app/unsubscribe/acc_1/ch_1/token";

    #[test]
    fn snapshot() {
        assert_snapshot("email", |alert| {
            let MailContent { subject, text, html } =
                render(&Message::new(alert), Some(UNSUBSCRIBE));
            format!("Subject: {subject}\n\n--- text\n{text}\n--- html\n{html}")
        });
    }

    #[test]
    fn foreign_text_is_inert() {
        for kind in AlertKind::ALL {
            let content = render(&Message::new(&hostile(*kind)), None);
            assert!(!content.subject.contains(char::is_control), "{}", content.subject);
            assert!(content.subject.chars().count() <= 200, "{}", content.subject);
            for text in [&content.text, &content.html] {
                assert!(!text.contains(['\0', '\u{1b}', '\u{202e}', '\r']), "{text}");
            }
            let html = &content.html;
            assert!(!html.contains("<script") && !html.contains("href=\"http://evil"), "{html}");
            assert_eq!(html.matches("<pre").count(), html.matches("</pre>").count());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_character_of_markup_is_left(text in ".*") {
            let escaped = escape(&text);
            proptest::prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            let rest = entities.iter().fold(escaped, |text, entity| text.replace(entity, ""));
            proptest::prop_assert!(!rest.contains('&'), "{}", rest);
        }
    }
}
