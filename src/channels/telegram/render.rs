//! Renders an alert as a Telegram message.

use serde_json::{Value, json};

use super::chat::ChatId;
use crate::channels::message::Message;

/// The maximum length of a message text without its markup, in UTF-16 code units.
const MAX_TEXT: usize = 4_096;

/// Returns the body of a `sendMessage` call.
pub fn payload(message: &Message, chat: &ChatId) -> Value {
    // The limit excludes markup and escapes, so counting them too is on the safe side.
    let text = message.fitted(text, |text| text.encode_utf16().count() <= MAX_TEXT);
    json!({
        "chat_id": chat,
        "text": text,
        "parse_mode": "HTML",
        "link_preview_options": { "is_disabled": true },
    })
}

fn text(message: &Message) -> String {
    let mut lines = vec![format!("<b>{}</b>", inert(&message.headline)), String::new()];
    lines.extend(message.facts.iter().map(|fact| {
        let value = match fact.is_foreign {
            true => format!("<code>{}</code>", escape(&fact.value)),
            false => escape(&fact.value),
        };
        format!("<b>{}:</b> {value}", fact.label)
    }));
    if let Some(excerpt) = &message.excerpt {
        lines.push(format!("<b>Response:</b>\n<pre>{}</pre>", escape(excerpt)));
    }
    if let Some(link) = &message.link {
        lines.push(format!("\n<a href=\"{}\">{}</a>", escape(&link.url), link.label));
    }
    lines.join("\n")
}

/// Escapes everything that Telegram reads as HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes text outside code. There Telegram also turns mentions, hash tags, commands and host
/// names into links; an invisible character inside them prevents that.
fn inert(text: &str) -> String {
    let mut defused = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        let is_joint = match before {
            '@' | '#' | '/' | '$' => c.is_alphanumeric(),
            '.' => c.is_alphabetic(),
            _ => false,
        };
        if is_joint {
            defused.push('\u{2060}');
        }
        defused.push(c);
        before = c;
    }
    escape(&defused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::samples::{assert_snapshot, hostile};
    use crate::domain::alert::AlertKind;

    fn rendered(message: &Message) -> Value {
        payload(message, &ChatId::Number(-1_001))
    }

    /// Removes the markup from a text.
    fn without_tags(text: &str) -> String {
        let known = ["<b>", "</b>", "<code>", "</code>", "<pre>", "</pre>", "</a>"];
        let link = "<a href=\"https://punctual.example/app/dashboard/jobs/job_01\">";
        known.iter().chain([&link]).fold(text.to_owned(), |text, tag| text.replace(tag, ""))
    }

    #[test]
    fn snapshot() {
        assert_snapshot("telegram", |alert| format!("{:#}", rendered(&Message::new(alert))));
    }

    #[test]
    fn foreign_text_is_inert_and_fits() {
        for kind in AlertKind::ALL {
            let payload = rendered(&Message::new(&hostile(*kind)));
            let text = payload["text"].as_str().expect("a text");
            assert!(text.encode_utf16().count() <= MAX_TEXT);
            let plain = without_tags(text);
            assert!(!plain.contains(['<', '>', '"', '\0', '\u{202e}', '\r']), "{text}");
            let headline = text.lines().next().expect("a headline");
            assert!(!headline.contains("@ann") && !headline.contains("evil.example"), "{text}");
            for (tag, end) in [("<code>", "</code>"), ("<pre>", "</pre>"), ("<b>", "</b>")] {
                assert_eq!(text.matches(tag).count(), text.matches(end).count(), "{text}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_character_of_markup_is_left(text in ".*") {
            for escaped in [escape(&text), inert(&text)] {
                proptest::prop_assert!(!escaped.contains(['<', '>', '"']));
                let entities = ["&amp;", "&lt;", "&gt;", "&quot;"];
                let rest = entities.iter().fold(escaped, |text, entity| text.replace(entity, ""));
                proptest::prop_assert!(!rest.contains('&'), "{}", rest);
            }
        }
    }
}
