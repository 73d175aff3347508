//! Renders an alert as Slack blocks.

use serde_json::{Value, json};

use crate::channels::message::Message;
use crate::channels::text::cut;

/// The maximum length of the text of a header block and of a section, in characters.
const MAX_HEADER: usize = 150;
const MAX_SECTION: usize = 3_000;

/// Returns the body of a request to an incoming webhook.
pub fn payload(message: &Message) -> Value {
    message.fitted(blocks, fits)
}

/// Renders the blocks. The headline is plain text. The other texts are mrkdwn, with foreign text as
/// code so that it gets no formatting; `verbatim` stops Slack from turning text into links.
fn blocks(message: &Message) -> Value {
    let mut blocks = vec![json!({
        "type": "header",
        "text": { "type": "plain_text", "text": header(&message.headline), "emoji": false },
    })];
    let facts = message.facts.iter().map(|fact| {
        let value = if fact.is_foreign { code(&fact.value) } else { escape(&fact.value) };
        format!("*{}:* {value}", fact.label)
    });
    blocks.push(section(&facts.collect::<Vec<_>>().join("\n")));
    if let Some(excerpt) = &message.excerpt {
        blocks.push(section(&format!("*Response:*\n```{}```", in_code(excerpt))));
    }
    if let Some(link) = &message.link {
        let text = format!("<{}|{}>", url(&link.url), link.label);
        let element = json!({ "type": "mrkdwn", "text": text, "verbatim": true });
        blocks.push(json!({ "type": "context", "elements": [element] }));
    }
    json!({
        "text": escape(&message.headline),
        "mrkdwn": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "blocks": blocks,
    })
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": { "type": "mrkdwn", "text": text, "verbatim": true } })
}

fn fits(payload: &Value) -> bool {
    let texts = payload["blocks"].as_array().into_iter().flatten();
    let longest = texts.filter_map(|block| block["text"]["text"].as_str()).map(length).max();
    longest.unwrap_or(0) <= MAX_SECTION
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the headline, escaped and cut to the maximum header length.
fn header(headline: &str) -> String {
    let sizes = (1..=MAX_HEADER).rev();
    let mut cuts = sizes.map(|size| escape(&cut(headline, size)));
    cuts.find(|text| length(text) <= MAX_HEADER).unwrap_or_default()
}

/// Escapes everything that Slack reads as markup or as a mention. The character after `@` is
/// invisible.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("@\u{2060}"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes text for inline code or a code block, which a grave accent would end.
fn in_code(text: &str) -> String {
    escape(text).replace('`', "\u{2cb}")
}

fn code(text: &str) -> String {
    format!("`{}`", in_code(text))
}

/// Escapes a URL of this installation for a link.
fn url(url: &str) -> String {
    url.replace('&', "&amp;").replace('<', "%3C").replace('>', "%3E").replace('|', "%7C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::samples::{HOSTILE, assert_snapshot, hostile};
    use crate::domain::alert::AlertKind;

    #[test]
    fn snapshot() {
        assert_snapshot("slack", |alert| format!("{:#}", payload(&Message::new(alert))));
    }

    /// Returns all texts of a payload with their types.
    fn texts(payload: &Value) -> Vec<(&str, &str)> {
        let blocks = payload["blocks"].as_array().expect("blocks");
        let elements = blocks.iter().flat_map(|block| {
            let inner = block["elements"].as_array().into_iter().flatten();
            inner.chain(block.get("text"))
        });
        let text = |value: &'_ Value| value["text"].as_str().map(str::len).is_some();
        let mut texts: Vec<_> = elements
            .filter(|value| text(value))
            .map(|value| {
                (value["type"].as_str().expect("a type"), value["text"].as_str().expect("a text"))
            })
            .collect();
        texts.push(("fallback", payload["text"].as_str().expect("a text")));
        texts
    }

    #[test]
    fn foreign_text_is_inert() {
        for kind in AlertKind::ALL {
            let payload = payload(&Message::new(&hostile(*kind)));
            for (what, text) in texts(&payload) {
                let ours = text.replace("<https://punctual.example/app/dashboard/jobs/job_01|", "");
                let ours = ours.strip_suffix('>').unwrap_or(&ours);
                assert!(!ours.contains(['<', '>', '\0', '\u{202e}', '\r']), "{what}: {text}");
                assert!(!text.contains("@here") && !text.contains("@ann"), "{text}");
                // Outside code, no foreign character may act as formatting.
                if what == "mrkdwn" {
                    let outside: String = text.split('`').step_by(2).collect();
                    for foreign in ["*bold*", "_it_", "~no~", "evil"] {
                        assert!(!outside.contains(foreign), "{foreign} in {text}");
                    }
                    assert_eq!(text.matches('`').count() % 2, 0, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_limits_are_kept() {
        for kind in AlertKind::ALL {
            for block in
                payload(&Message::new(&hostile(*kind)))["blocks"].as_array().expect("blocks")
            {
                let most = if block["type"] == "header" { MAX_HEADER } else { MAX_SECTION };
                assert!(length(block["text"]["text"].as_str().unwrap_or_default()) <= most);
            }
        }
        assert!(length(&header(&"<".repeat(400))) <= MAX_HEADER);
    }

    proptest::proptest! {
        #[test]
        fn no_character_of_markup_is_left(text in ".*") {
            for escaped in [escape(&text), in_code(&text), header(&text), escape(HOSTILE)] {
                proptest::prop_assert!(!escaped.contains(['<', '>']));
                let entities = ["&amp;", "&lt;", "&gt;"];
                let rest = entities.iter().fold(escaped.clone(), |text, entity| text.replace(entity, ""));
                proptest::prop_assert!(!rest.contains('&'), "{}", escaped);
                proptest::prop_assert!(!in_code(&text).contains('`'));
            }
        }
    }
}
