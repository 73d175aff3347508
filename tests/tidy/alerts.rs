//! `docs/notifications.md` shows alerts as their recipients see them. The examples are derived from
//! the rendering snapshots in the unit tests of the channels.

use serde_json::Value;

use crate::tree::{Finding, Tree};

/// A function that shows the rendering of a channel.
type Show = fn(&str) -> String;

const DOCUMENT: &str = "docs/notifications.md";

fn check(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, "is missing")];
    };
    let mut findings = Vec::new();
    let channels: [(&str, Show); 5] = [
        ("email", mail),
        ("slack", |text| quote(&slack(&json(text)))),
        ("discord", |text| quote(&discord(&json(text)))),
        ("telegram", |text| quote(&telegram(&json(text)))),
        ("webhook", |text| format!("```json\n{}\n```\n", text.trim_end())),
    ];
    for (channel, show) in channels {
        let path = format!("src/channels/snapshots/{channel}.txt");
        let Some(snapshot) = tree.get(&path) else {
            findings.push(Finding::new(&path, "is missing"));
            continue;
        };
        let expected = format!("<!-- shown: {channel} -->\n{}\n", show(failure(&snapshot.text)));
        if !document.text.contains(&expected) {
            findings.push(Finding::new(DOCUMENT, format!("lacks this part:\n{expected}")));
        }
    }
    findings
}

/// Returns the rendering of a failed job.
fn failure(snapshot: &str) -> &str {
    let after = snapshot.split_once("=== job.failed\n").map_or("", |(_, after)| after);
    after.split_once("\n=== ").map_or(after, |(rendering, _)| rendering)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the rendering of this channel is JSON")
}

/// Shows a mail without its HTML.
fn mail(text: &str) -> String {
    let text = text.replace("--- text\n", "");
    let text = text.split_once("\n--- html").map_or(text.as_str(), |(text, _)| text);
    format!("```text\n{}\n```\n", text.trim_end())
}

/// Shows the blocks of a Slack message as Markdown.
fn slack(message: &Value) -> String {
    let mut paragraphs = Vec::new();
    for block in message["blocks"].as_array().into_iter().flatten() {
        let element = block["elements"].get(0).unwrap_or(&block["text"]);
        let text = element["text"].as_str().unwrap_or_default();
        paragraphs.push(match block["type"].as_str() {
            Some("header") => format!("**{text}**"),
            Some("context") => {
                let (url, label) =
                    text.trim_matches(['<', '>']).split_once('|').unwrap_or_default();
                format!("[{label}]({url})")
            }
            _ => match text.split_once("```") {
                Some((label, code)) => {
                    format!("{}```\n{}\n```", bold(label), code.trim_end_matches('`'))
                }
                None => bold(text),
            },
        });
    }
    plain(&paragraphs.join("\n\n"))
}

/// Converts `*Label:* value` of Slack to Markdown.
fn bold(text: &str) -> String {
    text.replace(":*", ":**")
        .split('\n')
        .map(|line| line.replacen('*', "**", 1))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Shows an embed of Discord, which is Markdown, with its title.
fn discord(message: &Value) -> String {
    let embed = &message["embeds"][0];
    let text = |name: &str| embed[name].as_str().unwrap_or_default();
    let footer = embed["footer"]["text"].as_str().unwrap_or_default();
    let (title, url, description) = (text("title"), text("url"), text("description"));
    format!("**[{title}]({url})**\n\n{description}\n\n{footer} • {}", text("timestamp"))
}

/// Converts the HTML of Telegram to Markdown.
fn telegram(message: &Value) -> String {
    let mut text = message["text"].as_str().unwrap_or_default().to_owned();
    for (html, markdown) in [
        ("<b>", "**"),
        ("</b>", "**"),
        ("<code>", "`"),
        ("</code>", "`"),
        ("<pre>", "```\n"),
        ("</pre>", "\n```"),
    ] {
        text = text.replace(html, markdown);
    }
    if let Some((before, link)) = text.clone().split_once("<a href=\"")
        && let Some((url, label)) = link.trim_end_matches("</a>").split_once("\">")
    {
        text = format!("{before}[{label}]({url})");
    }
    plain(&text)
}

fn plain(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

/// Returns Markdown as a block quote that keeps its line breaks.
fn quote(text: &str) -> String {
    let mut quoted = String::new();
    let mut in_code = false;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        in_code ^= line.starts_with("```");
        let next = lines.get(index + 1).copied().unwrap_or_default();
        let is_text = !in_code && !line.starts_with("```") && !line.is_empty();
        let breaks = is_text && !next.is_empty() && !next.starts_with("```");
        let end = if breaks { "\\" } else { "" };
        quoted += format!("> {line}{end}").trim_end();
        quoted.push('\n');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_what_no_reader_sees() {
        let slack = r#"=== job.failed
            {"blocks": [{"type": "header", "text": {"text": "Down"}},
                {"type": "section", "text": {"text": "*At:* 12:00\n*Why:* `a &lt; b`"}}]}
            "#;
        let shown =
            "<!-- shown: slack -->\n> **Down**\n>\n> **At:** 12:00\\\n> **Why:** `a < b`\n\n";
        let snapshot = ("src/channels/snapshots/slack.txt", slack);
        let others = ["is missing"; 4];
        assert_finds(&check(&Tree::of(&[(DOCUMENT, shown), snapshot])), &others);
        let changed = shown.replace("12:00", "13:00");
        let expected = [&others[..], &["lacks this part"]].concat();
        assert_finds(&check(&Tree::of(&[(DOCUMENT, &changed), snapshot])), &expected);
    }
}
