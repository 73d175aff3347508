//! The filter of the list of jobs by a schedule: a search for a part of its name, and the schedule
//! that was found.

use maud::{Markup, html};

use crate::dashboard::{DashboardParts, PAGE_BYTES, PageError};
use crate::domain::alert::masked_url;
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, ScheduleId};
use crate::schedules::CommandError;
use crate::store::{ScheduleQuery, ScheduleSort, SortField};

/// The maximum number of schedules that a search offers.
const MAX_OFFERED: usize = 20;
/// The number of schedules that a search reads. The store also finds descriptions and URLs, so some
/// of them do not count.
const READ: u32 = 200;

/// The result of a search for schedules by a part of their names.
pub(super) struct FoundSchedules {
    /// The text that was searched for.
    text: String,
    /// The schedules, by name, at most [`MAX_OFFERED`].
    schedules: Vec<Schedule>,
    /// `true` if there may be more of them.
    has_more: bool,
}

impl FoundSchedules {
    /// Returns the schedule that is meant: the only one that was found, or the only one with
    /// exactly this name.
    pub(super) fn meant(&self) -> Option<ScheduleId> {
        let is_named = |one: &&Schedule| one.name.eq_ignore_ascii_case(&self.text);
        let mut named = self.schedules.iter().filter(is_named);
        match (named.next(), named.next(), self.schedules.as_slice()) {
            (Some(one), None, _) => Some(one.id),
            (None, _, [one]) if !self.has_more => Some(one.id),
            _ => None,
        }
    }

    /// Renders the choice among the schedules. `address` is the list of the jobs of a schedule.
    pub(super) fn choice(&self, address: impl Fn(ScheduleId) -> String) -> Markup {
        let quoted = format!("\u{201c}{}\u{201d}", self.text);
        html! {
            div.note role="status" {
                @if self.schedules.is_empty() {
                    p {
                        "No schedule has a name that contains " (quoted) ". To see the jobs of a \
                         deleted schedule, enter its id."
                    }
                } @else {
                    p { "Several schedules have a name that contains " (quoted) ". Choose one:" }
                    ul {
                        @for one in &self.schedules {
                            li {
                                a href=(address(one.id)) { (one.name) }
                                span.soft {
                                    " " (one.definition.http_method) " "
                                    (masked_url(&one.definition.endpoint))
                                }
                            }
                        }
                    }
                    @if self.has_more { p { "There are more. Type a longer part of the name." } }
                }
            }
        }
    }
}

/// Searches for schedules by a part of their names; the case of ASCII letters is ignored.
pub(super) async fn search(
    dashboard: &DashboardParts,
    account: AccountId,
    text: &str,
) -> Result<FoundSchedules, PageError> {
    let query = ScheduleQuery {
        contains: Some(text.to_owned()),
        is_enabled: None,
        http_method: None,
        is_failing: None,
        sort: ScheduleSort { field: SortField::Name, descending: false },
        after: None,
        offset: 0,
        limit: READ,
        max_bytes: PAGE_BYTES,
    };
    let page = dashboard.schedules.list(account, &query).await?;
    let wanted = text.to_ascii_lowercase();
    let is_found = |one: &Schedule| one.name.to_ascii_lowercase().contains(&wanted);
    let mut schedules: Vec<_> = page.schedules.into_iter().filter(is_found).collect();
    // Exact names come first, so that the limit does not leave them out.
    schedules.sort_by_key(|one| !one.name.eq_ignore_ascii_case(text));
    let has_more = page.has_more || schedules.len() > MAX_OFFERED;
    schedules.truncate(MAX_OFFERED);
    Ok(FoundSchedules { text: text.to_owned(), schedules, has_more })
}

/// Renders the schedule whose jobs are listed, with a link that removes the filter.
pub(super) async fn chip(
    dashboard: &DashboardParts,
    account: AccountId,
    id: &str,
    without: &str,
) -> Result<Markup, PageError> {
    let name = match id.parse() {
        Ok(id) => match dashboard.schedules.get(account, id).await {
            Ok(schedule) => schedule.name,
            Err(CommandError::NoSuchSchedule) => id.to_string(),
            Err(error) => return Err(error.into()),
        },
        Err(_) => id.to_owned(),
    };
    Ok(html! {
        p.chips {
            span.chip {
                "Schedule: " (name) " "
                a href=(without) aria-label={ "Remove the filter by the schedule " (name) } { "×" }
            }
        }
    })
}
