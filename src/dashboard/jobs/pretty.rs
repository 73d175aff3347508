//! Indents JSON. Order, numbers and spelling stay as they were sent, so the text is not parsed and
//! written again.

use serde_json::Value;

/// The maximum growth of a text. Deeply nested arrays would otherwise become very long.
const MAX_GROWTH: usize = 4;

/// Returns the text with line breaks and indentation; `None` if it is not a JSON object or array.
pub(super) fn pretty(text: &str) -> Option<String> {
    let text = text.trim();
    // The parser bounds the depth.
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok();
    if !is_json {
        return None;
    }
    let most = 1_024 + MAX_GROWTH * text.len();
    let mut indented = Indented::default();
    for letter in text.chars() {
        indented.push(letter);
        if indented.text.len() > most {
            return None;
        }
    }
    Some(indented.text)
}

#[derive(Default)]
struct Indented {
    text: String,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// `true` after an opening bracket: the line breaks only if something follows.
    is_open: bool,
}

impl Indented {
    /// Adds a letter of valid JSON.
    fn push(&mut self, letter: char) {
        if self.in_string {
            self.text.push(letter);
            self.in_string = letter != '"' || self.is_escaped;
            self.is_escaped = letter == '\\' && !self.is_escaped;
            return;
        }
        if letter.is_ascii_whitespace() {
            return;
        }
        let closes = matches!(letter, '}' | ']');
        let was_open = std::mem::take(&mut self.is_open);
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if was_open != closes {
            self.break_line();
        }
        self.text.push(letter);
        match letter {
            '"' => self.in_string = true,
            '{' | '[' => {
                self.depth += 1;
                self.is_open = true;
            }
            ',' => self.break_line(),
            ':' => self.text.push(' '),
            _ => {}
        }
    }

    fn break_line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_nothing_else_changes() {
        let text = r#" {"b":1.50,"a":[1, {"c\"}":"x, y:[\\"}],"e":{},"f":[ ]} "#;
        let lines = [
            "{",
            "  \"b\": 1.50,",
            "  \"a\": [",
            "    1,",
            "    {",
            "      \"c\\\"}\": \"x, y:[\\\\\"",
            "    }",
            "  ],",
            "  \"e\": {},",
            "  \"f\": []",
            "}",
        ];
        assert_eq!(pretty(text).as_deref(), Some(lines.join("\n").as_str()));
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "hello", "\"a\"", "1", "{\"a\":", "<html>"] {
            assert_eq!(pretty(text), None, "{text}");
        }
        let deep = format!("{}{}{}", "[".repeat(100), "1,".repeat(5_000) + "1", "]".repeat(100));
        assert_eq!(pretty(&deep), None);
    }
}
