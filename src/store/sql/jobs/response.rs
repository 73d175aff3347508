//! The stored form of responses: text, whatever the bytes were.

use std::collections::BTreeMap;

use crate::domain::outcome::Response;

/// Replaces NUL characters, because not every store can keep them in a text.
pub(in crate::store) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Returns a response's body as text, whatever its bytes are.
pub(in crate::store) fn body_text(response: &Response) -> String {
    without_nul(&String::from_utf8_lossy(&response.body))
}

/// Returns a response's headers as a JSON object. Values of one name are joined as in RFC 9110,
/// 5.3.
pub(in crate::store) fn headers_text(response: &Response) -> String {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &response.headers {
        headers
            .entry(without_nul(name))
            .and_modify(|joined| {
                joined.push_str(", ");
                joined.push_str(&without_nul(value));
            })
            .or_insert_with(|| without_nul(value));
    }
    serde_json::to_string(&headers).expect("a map of texts always has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_become_one_object() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers =
            vec![header("b", "1"), header("a", "x\0y"), header("b", ""), header("b", "3")];
        let response = Response { headers, ..Response::default() };
        assert_eq!(headers_text(&response), "{\"a\":\"x\u{fffd}y\",\"b\":\"1, , 3\"}");
    }
}
