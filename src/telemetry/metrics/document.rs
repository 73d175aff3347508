//! Renders the table of all metrics as a page of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{TABLE, handles};

/// The maximum number of label values that are listed. Beyond it, only their number is shown.
const LISTED: usize = 13;

const HEAD: &str = "# Metrics

Every metric that the operations listener shows at `/metrics`, in addition to the process metrics
(`process_…`). Labels have only the values listed here: schedules, accounts and other data of users add
no series. All series exist from the start. Histograms of seconds have buckets from one millisecond to
minutes.

This page is written by `punctual metrics`.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
";

/// Returns the page `docs/metrics.md`.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for metric in TABLE {
        let handles::MetricDefinition { name, help } = metric.definition();
        let labels = labels(*metric);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| `{name}` | {} | {labels} | {help} |", metric.kind());
    }
    page
}

/// Returns the labels of a metric with their values, without duplicates, in the order of the
/// series.
fn labels(metric: &dyn handles::Metric) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for label in metric.labels().into_iter().flatten() {
        let (name, value) = label.into_parts();
        let (name, value) = (name.into_owned(), value.into_owned());
        let known = values.entry(name.clone()).or_default();
        if known.is_empty() {
            names.push(name);
        }
        if !known.contains(&value) {
            known.push(value);
        }
    }
    let texts = names.iter().map(|name| match &values[name][..] {
        _ if name == "version" => "`version`".to_owned(),
        many if many.len() > LISTED => format!("`{name}`: {} values", many.len()),
        few => format!("`{name}`: `{}`", few.join("`, `")),
    });
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_as_it_is_written() {
        let kept = include_str!("../../../docs/metrics.md");
        let same = kept == document();
        assert!(same, "docs/metrics.md is old; run: cargo run -- metrics >docs/metrics.md");
    }
}
