//! The part of the list of schedules that is shown: search, filters, order and position, as its
//! address says.

use maud::{Markup, html};

use crate::dashboard::form::FormFields;
use crate::dashboard::{DashboardParts, PAGE_BYTES};
use crate::domain::schedule::HttpMethod;
use crate::store::{ScheduleQuery, ScheduleSort, SortField};

/// The number of schedules on a page.
pub(super) const PAGE: u32 = 50;

/// The name of the filter by outcome in the address, and its values.
pub(super) const OUTCOME: &str = "outcome";
pub(super) const FAILING: &str = "failing";
pub(super) const FINE: &str = "fine";

/// The orders: the value in the address, the words, and the order of the query.
pub(super) const SORTS: [(&str, &str, SortField, bool); 5] = [
    ("newest", "Newest first", SortField::CreatedAt, true),
    ("oldest", "Oldest first", SortField::CreatedAt, false),
    ("name", "Name", SortField::Name, false),
    ("next", "Next run", SortField::NextTick, false),
    ("last", "Last run", SortField::LastRun, true),
];

/// The part of the list that is shown. The form of the bulk actions carries it along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListView {
    pub(super) text: String,
    pub(super) state: String,
    pub(super) outcome: String,
    pub(super) method: String,
    pub(super) sort: String,
    pub(super) offset: u64,
}

impl ListView {
    /// Reads the fields of an address, or of the form of the bulk actions.
    pub(super) fn read(fields: &FormFields) -> Self {
        // PostgreSQL cannot search for a NUL character, and no text has one.
        let text = |name: &str| fields.text(name).trim().replace('\0', "");
        Self {
            text: text("q"),
            state: text("state"),
            outcome: text(OUTCOME),
            method: text("method"),
            sort: text("sort"),
            offset: text("offset").parse().unwrap_or(0),
        }
    }

    /// Returns the query for the page.
    pub(super) fn query(&self) -> ScheduleQuery {
        let sort = SORTS.iter().find(|(value, ..)| *value == self.sort).unwrap_or(&SORTS[0]);
        ScheduleQuery {
            contains: (!self.text.is_empty()).then(|| self.text.clone()),
            is_enabled: match self.state.as_str() {
                "enabled" => Some(true),
                "paused" => Some(false),
                _ => None,
            },
            http_method: self.method.parse::<HttpMethod>().ok(),
            is_failing: match self.outcome.as_str() {
                FAILING => Some(true),
                FINE => Some(false),
                _ => None,
            },
            sort: ScheduleSort { field: sort.2, descending: sort.3 },
            after: None,
            offset: self.offset,
            limit: PAGE,
            max_bytes: PAGE_BYTES,
        }
    }

    /// Returns the filters in words, as the query understands them.
    pub(super) fn words(&self) -> Vec<String> {
        let query = self.query();
        let state = query.is_enabled.map(|is| if is { "State: enabled" } else { "State: paused" });
        let outcome =
            query.is_failing.map(|is| if is { "Outcome: failing" } else { "Outcome: not failing" });
        let text = query
            .contains
            .map(|text| format!("Name, description or URL contains \u{201c}{text}\u{201d}"));
        let method = query.http_method.map(|method| format!("Method: {method}"));
        let fixed = [state, outcome].into_iter().flatten().map(str::to_owned);
        text.into_iter().chain(fixed).chain(method).collect()
    }

    /// Returns `true` if filters leave schedules out.
    pub(super) fn is_filtered(&self) -> bool {
        [&self.text, &self.state, &self.outcome, &self.method]
            .iter()
            .any(|filter| !filter.is_empty())
    }

    /// Returns the names and values in the address.
    fn pairs(&self) -> [(&'static str, String); 6] {
        let offset = if self.offset > 0 { self.offset.to_string() } else { String::new() };
        [
            ("q", self.text.clone()),
            ("state", self.state.clone()),
            (OUTCOME, self.outcome.clone()),
            ("method", self.method.clone()),
            ("sort", self.sort.clone()),
            ("offset", offset),
        ]
    }

    /// Renders the view as hidden fields.
    pub(super) fn hidden(&self) -> Markup {
        html! {
            @for (name, value) in self.pairs() { input type="hidden" name=(name) value=(value); }
        }
    }

    /// Returns the address of the list.
    pub(super) fn address(&self, dashboard: &DashboardParts) -> String {
        dashboard.address("/schedules", self.pairs())
    }

    /// Returns the address of another page of the same list.
    pub(super) fn at(&self, dashboard: &DashboardParts, offset: u64) -> String {
        Self { offset, ..self.clone() }.address(dashboard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_gives_the_query() {
        let given = [
            ("q", " a b "),
            ("state", "paused"),
            ("outcome", "failing"),
            ("method", "PUT"),
            ("sort", "next"),
        ];
        let view = ListView::read(&FormFields::of(given));
        let query = view.query();
        assert_eq!(query.contains.as_deref(), Some("a b"));
        assert_eq!((query.is_enabled, query.http_method), (Some(false), Some(HttpMethod::Put)));
        assert_eq!(query.is_failing, Some(true));
        assert_eq!((query.sort.field, query.sort.descending), (SortField::NextTick, false));
        assert_eq!(ListView::read(&FormFields::of(view.pairs())), view);
        let words = [
            "Name, description or URL contains \u{201c}a b\u{201d}",
            "State: paused",
            "Outcome: failing",
            "Method: PUT",
        ];
        assert_eq!(view.words(), words);
        // A filter that the query does not know does not filter, and is not named.
        let unknown = ListView::read(&FormFields::of([("state", "x"), ("method", "y")]));
        assert!(unknown.words().is_empty());
        let usual = ListView::default().query();
        assert_eq!((usual.sort.field, usual.sort.descending), (SortField::CreatedAt, true));
        assert_eq!((usual.contains, usual.is_enabled, usual.is_failing), (None, None, None));
    }
}
