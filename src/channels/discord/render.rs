//! Renders an alert as a Discord embed.

use serde_json::{Value, json};

use crate::channels::message::{Message, MessageFact, Tone};
use crate::channels::text::cut;

/// The maximum length of an embed's title and of its description, in characters.
const MAX_TITLE: usize = 256;
const MAX_DESCRIPTION: usize = 4_096;

/// The characters that Discord reads as markup or as part of a mention or a link.
const MARKUP: &str = r"\*_~`|<>#@[]";

const RED: u32 = 0x00d9_3025;
const GREEN: u32 = 0x0018_8038;
const GREY: u32 = 0x005f_6368;

/// Returns the body of a webhook request.
pub fn payload(message: &Message) -> Value {
    message.fitted(embed, |payload| {
        let description = payload["embeds"][0]["description"].as_str().unwrap_or_default();
        length(description) <= MAX_DESCRIPTION
    })
}

fn embed(message: &Message) -> Value {
    let mut embed = json!({
        "title": title(&message.headline),
        "description": description(message),
        "color": match message.tone {
            Tone::Bad => RED,
            Tone::Good => GREEN,
            Tone::Neutral => GREY,
        },
        "timestamp": message.created_at,
        "footer": { "text": "Punctual" },
    });
    if let Some(link) = &message.link {
        embed["url"] = json!(link.url);
    }
    json!({ "allowed_mentions": { "parse": [] }, "embeds": [embed] })
}

fn description(message: &Message) -> String {
    let facts = message.facts.iter();
    let line = |fact: &MessageFact| {
        let value = if fact.is_foreign { escape(&fact.value) } else { fact.value.clone() };
        format!("**{}:** {value}", fact.label)
    };
    let mut lines: Vec<_> = facts.map(line).collect();
    if let Some(excerpt) = &message.excerpt {
        lines.push(format!("**Response:**\n```\n{}\n```", in_code(excerpt)));
    }
    if let Some(link) = &message.link {
        lines.push(format!("[{}]({})", link.label, url(&link.url)));
    }
    lines.join("\n")
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the headline, escaped and cut to the maximum title length.
fn title(headline: &str) -> String {
    let mut cuts = (1..=MAX_TITLE).rev().map(|size| escape(&cut(headline, size)));
    cuts.find(|text| length(text) <= MAX_TITLE).unwrap_or_default()
}

/// Escapes everything that Discord reads as markup, mention, link or emoji.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // A colon before white space is only punctuation.
        let is_joint = c == ':' && chars.peek().is_some_and(|next| !next.is_whitespace());
        if is_joint || MARKUP.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Prepares text for a code block, which three grave accents would end.
fn in_code(text: &str) -> String {
    text.replace('`', "\u{2cb}")
}

/// Escapes a URL of this installation for a link.
fn url(url: &str) -> String {
    url.replace('(', "%28").replace(')', "%29").replace(['<', '>', ' '], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::samples::{assert_snapshot, hostile};
    use crate::domain::alert::AlertKind;

    #[test]
    fn snapshot() {
        assert_snapshot("discord", |alert| format!("{:#}", payload(&Message::new(alert))));
    }

    #[test]
    fn foreign_text_is_inert_and_fits() {
        for kind in AlertKind::ALL {
            let payload = payload(&Message::new(&hostile(*kind)));
            assert_eq!(payload["allowed_mentions"], json!({ "parse": [] }));
            let embed = &payload["embeds"][0];
            let title = embed["title"].as_str().expect("a title");
            let description = embed["description"].as_str().expect("a description");
            assert!(length(title) <= MAX_TITLE && length(description) <= MAX_DESCRIPTION);
            // The third part of a description is the response, in a code block.
            let blocks: Vec<_> = description.split("```").collect();
            assert!(matches!(blocks.len(), 1 | 3), "{description}");
            // Our own link is the last line.
            let facts = blocks[0].split("\n[Open ").next().unwrap_or_default();
            for text in [title, facts] {
                let rest = without_escapes(text).replace("**", "");
                assert!(!rest.contains(|c| MARKUP.contains(c)), "{rest}");
                assert!(
                    !rest.contains("://") && !text.contains(['\0', '\u{202e}', '\r']),
                    "{rest}"
                );
            }
        }
    }

    /// Removes escape sequences from a text.
    fn without_escapes(text: &str) -> String {
        let mut chars = text.chars();
        let mut rest = String::new();
        while let Some(c) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                c => rest.push(c),
            }
        }
        rest
    }

    proptest::proptest! {
        #[test]
        fn no_character_of_markup_is_left(text in ".*") {
            let rest = without_escapes(&escape(&text));
            proptest::prop_assert!(!rest.contains(|c| MARKUP.contains(c)), "{}", rest);
            proptest::prop_assert!(!in_code(&text).contains('`'));
            proptest::prop_assert!(length(&title(&text)) <= MAX_TITLE);
        }
    }
}
