//! The kind of a bulk action, and its target schedules.

use std::collections::BTreeSet;
use std::str::FromStr;

use maud::{Markup, html};

use crate::dashboard::PageError;
use crate::dashboard::form::FormFields;
use crate::domain::{ScheduleId, Timestamp};

/// The maximum number of schedules that are selected. A page of the list has fewer.
const MAX_SELECTED: usize = 100;
/// The maximum number of schedules whose change can be undone. Their ids are in the form.
pub(super) const MAX_UNDONE: usize = 10_000;

/// A change of many schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BulkAction {
    Enable,
    Disable,
    Delete,
}

impl BulkAction {
    /// Returns the value in the form.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Delete => "delete",
        }
    }

    /// Returns the name of the button.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Enable => "Enable",
            Self::Disable => "Pause",
            Self::Delete => "Delete",
        }
    }

    /// Returns the word for what was changed, at the start of a sentence.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Enable => "Enabled",
            Self::Disable => "Paused",
            Self::Delete => "Deleted",
        }
    }

    /// Returns the switch of the schedules; `None` if the action deletes them.
    pub(super) fn switch(self) -> Option<bool> {
        match self {
            Self::Enable => Some(true),
            Self::Disable => Some(false),
            Self::Delete => None,
        }
    }

    /// Returns the action that undoes this one.
    pub(super) fn opposite(self) -> Option<Self> {
        match self {
            Self::Enable => Some(Self::Disable),
            Self::Disable => Some(Self::Enable),
            Self::Delete => None,
        }
    }
}

impl FromStr for BulkAction {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Enable, Self::Disable, Self::Delete]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or(())
    }
}

/// The schedules of a bulk action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BulkTargets {
    /// These schedules, in the order in which they are changed.
    Chosen(Vec<ScheduleId>),
    /// All schedules that match the filters, newest first, after this position.
    Matching(Option<(Timestamp, ScheduleId)>),
}

impl BulkTargets {
    /// Reads the ticked boxes, or the choice of all that match, and the position in a form that
    /// continues the action.
    pub(super) fn read(fields: &FormFields) -> Result<Self, PageError> {
        if fields.text("scope") == "matching" {
            return Ok(Self::Matching(position(fields.text("after"))?));
        }
        let selected: Result<BTreeSet<ScheduleId>, _> = fields.all("id").map(str::parse).collect();
        let selected = selected.map_err(|_| PageError::NotFound)?;
        if selected.len() > MAX_SELECTED {
            let why = format!("Select at most {MAX_SELECTED} schedules.");
            return Err(PageError::Refused(why));
        }
        let listed: Result<Vec<ScheduleId>, _> =
            fields.text("ids").split(' ').filter(|id| !id.is_empty()).map(str::parse).collect();
        let listed = listed.map_err(|_| PageError::NotFound)?;
        if listed.len() > MAX_UNDONE {
            let why = format!("Change at most {MAX_UNDONE} schedules by their ids.");
            return Err(PageError::Refused(why));
        }
        Ok(Self::Chosen(selected.into_iter().chain(listed).collect()))
    }

    /// Returns `true` for all schedules that match the filters.
    pub(super) fn is_all_matching(&self) -> bool {
        matches!(self, Self::Matching(_))
    }

    /// Renders the hidden fields from which the targets are read again.
    pub(super) fn hidden(&self) -> Markup {
        html! {
            @match self {
                Self::Chosen(ids) => { input type="hidden" name="ids" value=(joined(ids)); }
                Self::Matching(after) => {
                    input type="hidden" name="scope" value="matching";
                    @if let Some((at, id)) = after {
                        input type="hidden" name="after" value={ (at.as_millis()) " " (id) };
                    }
                }
            }
        }
    }
}

/// Reads the position in a form that continues the action.
fn position(text: &str) -> Result<Option<(Timestamp, ScheduleId)>, PageError> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (at, id) = text.split_once(' ')?;
        Some((Timestamp::from_millis(at.parse().ok()?), id.parse().ok()?))
    };
    read().map(Some).ok_or(PageError::NotFound)
}

/// Returns ids as the value of one field.
pub(super) fn joined(ids: &[ScheduleId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_targets_are_refused() {
        let read = |name: &str, value: &str| {
            BulkTargets::read(&FormFields::of([("scope", "matching"), (name, value)]))
        };
        assert_eq!(read("after", "").expect("a start"), BulkTargets::Matching(None));
        for wrong in ["x", "1", "1 x", "x sch_1"] {
            assert!(read("after", wrong).is_err(), "{wrong}");
        }
        for (name, value) in [("id", "x"), ("ids", "x"), ("ids", "x y")] {
            assert!(BulkTargets::read(&FormFields::of([(name, value)])).is_err(), "{name}");
        }
        let none = BulkTargets::read(&FormFields::default()).expect("nothing is selected");
        assert_eq!(none, BulkTargets::Chosen(Vec::new()));
    }
}
