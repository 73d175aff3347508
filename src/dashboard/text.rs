//! Stored texts, those of commands, and counts, as pages show them.

use std::collections::BTreeMap;

/// Makes a sentence of an error's text: a capital letter at the start, a full stop at the end.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// Returns the headers of a stored text, a JSON object of strings, sorted by name.
pub(super) fn read_headers(text: Option<&str>) -> Vec<(String, String)> {
    let headers = text.and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(text).ok());
    headers.unwrap_or_default().into_iter().collect()
}

/// Returns a number with its noun, such as `1 run` or `2 runs`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Returns a number with a comma between its thousands, such as `1,234`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let shown = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!(
            (counted(1, "job"), counted(5_000, "job")),
            ("1 job".into(), "5,000 jobs".into())
        );
    }
}
