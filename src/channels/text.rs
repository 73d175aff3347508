//! Cleans text from users and hosts for display: it removes control characters and limits the
//! length.

/// Returns `true` if a character changes the direction or the layout of the surrounding text, or is
/// invisible and meant for machines.
fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the text on one line of at most `most` characters. Control characters and runs of white
/// space become one space.
pub fn one_line(text: &str, most: usize) -> String {
    let shown = text.chars().filter(|c| !is_deceptive(*c));
    let blank = |c: char| if c.is_control() || is_line_break(c) { ' ' } else { c };
    let spaced: String = shown.map(blank).collect();
    let words: Vec<_> = spaced.split_whitespace().collect();
    cut(&words.join(" "), most)
}

/// Returns the text with its lines and indentation, cut to at most `most` characters.
pub fn block(text: &str, most: usize) -> String {
    let lines = text.replace("\r\n", "\n");
    let shown = lines.chars().filter(|c| !is_deceptive(*c)).filter_map(|c| match c {
        c if is_line_break(c) => Some('\n'),
        '\t' => Some('\t'),
        c if c.is_control() => None,
        c => Some(c),
    });
    let shown: String = shown.collect();
    cut(shown.trim_end().trim_start_matches('\n'), most)
}

/// Returns the first `most` characters of a text. If the text is longer, an ellipsis replaces the
/// last of them.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    if most == 0 { kept } else { format!("{}…", kept.trim_end()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        let text = " a\r\nBcc: x@y\0\u{1b}[31m\u{202e}b\u{2028}c\u{85}\td\u{200b}e ";
        assert_eq!(one_line(text, 100), "a Bcc: x@y [31mb c de");
        assert_eq!(one_line("\u{202e}\n", 100), "");
    }

    #[test]
    fn a_block_keeps_its_lines() {
        let text = "\r\n{\r\n\t\"a\": 1\r}\0\u{202e}\u{7}\n\n";
        assert_eq!(block(text, 100), "{\n\t\"a\": 1\n}");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("üüüü", 4), "üüüü");
        assert_eq!(cut("üüüüü", 4), "üüü…");
        assert_eq!(cut("ab cd", 4), "ab…");
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 0).as_str()), ("…", ""));
    }
}
