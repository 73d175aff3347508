//! Schedules in JSON: the array of the bulk API, an answer of the API, and the lines of an export.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ReadEntry;
use crate::domain::field_errors::FieldErrors;
use crate::domain::request_body::{Field, Json};

/// The kind of the lines of an export that are schedules.
const SCHEDULE: &str = "schedule";

/// The parts of an item that are not fields of a schedule.
#[derive(Deserialize)]
struct ItemHead {
    /// The kind of a line of an export.
    #[serde(default)]
    kind: Field<String>,
    /// The fields of a line of an export that could not be decrypted.
    #[serde(default)]
    unreadable: Field<Vec<String>>,
}

/// The object around the items of a list of the API.
#[derive(Deserialize)]
struct ItemList {
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Reads schedules from one JSON value, or from one on each line: at most `most` + 1 items, because
/// the caller refuses a text with more than `most`.
pub fn read(text: &str, most: usize) -> Result<Vec<ReadEntry>, FieldErrors> {
    let Ok(json) = Json::parse(text.as_bytes()) else { return read_lines(text, most) };
    let list = json.object::<ItemList>().ok().and_then(|list| list.data);
    let listed = list.as_ref().and_then(|data| Json::parse(data.get().as_bytes()).ok());
    let items = json.items(most).or_else(|| listed?.items(most)).unwrap_or_else(|| vec![json]);
    Ok((1..).zip(items).filter_map(|(number, item)| entry(number, item)).collect())
}

fn read_lines(text: &str, most: usize) -> Result<Vec<ReadEntry>, FieldErrors> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let malformed = |_| FieldErrors::of("text", format!("line {number} is not valid JSON"));
        entries.extend(entry(number, Json::parse(line.as_bytes()).map_err(malformed)?));
        if entries.len() > most {
            break;
        }
    }
    Ok(entries)
}

/// Returns the entry of an item; `None` if it is of another kind.
fn entry(number: usize, item: Json<'_>) -> Option<ReadEntry> {
    let head = match item.object::<ItemHead>() {
        Ok(head) => head,
        Err(error) => return Some(ReadEntry { number, item: Err(vec![error.to_string()]) }),
    };
    if head.kind.value().is_some_and(|kind| kind != SCHEDULE) {
        return None;
    }
    let lost = head.unreadable.value().unwrap_or_default().into_iter();
    let lost: Vec<_> =
        lost.map(|field| format!("{field}: could not be decrypted for the export")).collect();
    let item = if lost.is_empty() { Ok(item.text().to_owned()) } else { Err(lost) };
    Some(ReadEntry { number, item })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<(usize, bool)> {
        let entries = read(text, 10).expect("JSON");
        entries.iter().map(|entry| (entry.number, entry.item.is_ok())).collect()
    }

    #[test]
    fn all_forms_that_the_service_writes_are_read() {
        assert_eq!(numbers(r#"[{"name":"a"},{"name":"b"},1]"#), [(1, true), (2, true), (3, false)]);
        assert_eq!(numbers("{\n\"name\":\"a\"\n}"), [(1, true)]);
        assert_eq!(numbers(r#"{"data":[{"name":"a"}],"success":true}"#), [(1, true)]);
        let export = "{\"kind\":\"account\",\"id\":1}\n\n{\"kind\":\"schedule\",\"name\":\"a\"}\n\
                      {\"kind\":\"job\"}\n{\"kind\":\"schedule\",\"unreadable\":[\"body\"]}\n";
        assert_eq!(numbers(export), [(3, true), (5, false)]);
        assert_eq!(numbers("[]"), []);
        let many = format!("[{}]", vec!["{}"; 20].join(","));
        assert_eq!(read(&many, 10).expect("JSON").len(), 11);
    }

    #[test]
    fn a_text_that_is_no_json_names_the_line() {
        let refused = read("{\"kind\":\"account\"}\n{\"a\":}\n", 10).expect_err("no JSON");
        assert_eq!(refused, FieldErrors::of("text", "line 2 is not valid JSON"));
        assert!(read("[", 10).is_err());
    }
}
