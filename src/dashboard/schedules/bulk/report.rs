//! The counts of a bulk action, over all its requests.

use maud::{Markup, html};

use super::action::{BulkAction, MAX_UNDONE, joined};
use crate::dashboard::PageError;
use crate::dashboard::form::FormFields;
use crate::dashboard::text::{counted, grouped};
use crate::domain::ScheduleId;

/// The maximum number of different reasons that are listed. Further ones count as other reasons.
const MAX_REASONS: usize = 10;
const OTHER_REASONS: &str = "Other reasons.";

/// The result of a bulk action so far.
#[derive(Clone, Debug, Default)]
pub(super) struct BulkReport {
    /// The number of schedules that were changed.
    pub(super) changed: u64,
    /// The number of schedules that had the wanted state already.
    pub(super) unchanged: u64,
    /// The number of schedules that were not changed, by the reason.
    pub(super) failures: Vec<(String, u64)>,
    /// The changed schedules, for the undo; empty if there is no undo, or if they are too many.
    undo: Vec<ScheduleId>,
    /// The reason why the action stopped before its end.
    pub(super) stopped: Option<PageError>,
}

impl BulkReport {
    /// Reads the counts in a form that continues the action.
    pub(super) fn read(fields: &FormFields) -> Self {
        let number = |name: &str| fields.text(name).parse().unwrap_or(0);
        let failures = fields.all("failed").take(MAX_REASONS + 1).filter_map(|failure| {
            let (count, why) = failure.split_once(' ')?;
            Some((why.to_owned(), count.parse().ok()?))
        });
        let undo = fields.text("changed-ids").split(' ').filter_map(|id| id.parse().ok());
        Self {
            changed: number("changed"),
            unchanged: number("unchanged"),
            failures: failures.collect(),
            undo: undo.take(MAX_UNDONE).collect(),
            stopped: None,
        }
    }

    /// Renders the hidden fields from which the counts are read again.
    pub(super) fn hidden(&self) -> Markup {
        html! {
            input type="hidden" name="changed" value=(self.changed);
            input type="hidden" name="unchanged" value=(self.unchanged);
            input type="hidden" name="changed-ids" value=(joined(&self.undo));
            @for (why, count) in &self.failures {
                input type="hidden" name="failed" value={ (count) " " (why) };
            }
        }
    }

    /// Counts a schedule that was changed.
    pub(super) fn change(&mut self, id: ScheduleId) {
        self.changed = self.changed.saturating_add(1);
        self.undo.push(id);
    }

    /// Counts a schedule that could not be changed.
    pub(super) fn fail(&mut self, why: String) {
        let position = |why: &str| self.failures.iter().position(|(its, _)| its == why);
        let has_room = self.failures.len() < MAX_REASONS;
        let why = if has_room || position(&why).is_some() { why } else { OTHER_REASONS.to_owned() };
        match position(&why) {
            Some(position) => {
                self.failures[position].1 = self.failures[position].1.saturating_add(1);
            }
            None => self.failures.push((why, 1)),
        }
    }

    /// Returns the schedules whose change can be undone: all that were changed, or none.
    pub(super) fn undoable(&self, action: BulkAction) -> &[ScheduleId] {
        let is_complete = self.undo.len() as u64 == self.changed && self.undo.len() <= MAX_UNDONE;
        if action.opposite().is_some() && is_complete { &self.undo } else { &[] }
    }

    /// Renders the counts in words.
    pub(super) fn sentences(&self, action: BulkAction) -> Markup {
        let was = match action {
            BulkAction::Enable => "enabled",
            _ => "paused",
        };
        let failed = self.failures.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        html! {
            p {
                (action.done()) " " (counted(self.changed, "schedule")) "."
                @if self.unchanged > 0 {
                    " " (counted(self.unchanged, "schedule"))
                    @if self.unchanged == 1 { " was " } @else { " were " } (was) " already."
                }
                @if failed > 0 {
                    " " (counted(failed, "schedule")) " could not be changed:"
                }
            }
            @if failed > 0 {
                ul {
                    @for (why, count) in &self.failures { li { (grouped(*count)) ": " (why) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_limited() {
        let mut report = BulkReport::default();
        for why in 0..20 {
            report.fail(format!("Reason {why}."));
            report.fail("Reason 1.".to_owned());
        }
        assert_eq!(report.failures.len(), MAX_REASONS + 1);
        let count = |why: &str| report.failures.iter().find(|(its, _)| its == why).map(|one| one.1);
        assert_eq!((count("Reason 1."), count(OTHER_REASONS)), (Some(21), Some(10)));
        let words = report.sentences(BulkAction::Disable).into_string();
        assert!(words.contains("Paused 0 schedules. 40 schedules could not"), "{words}");
    }

    #[test]
    fn only_a_complete_change_can_be_undone() {
        let id: ScheduleId = ScheduleId::from_bytes([7; 16]);
        let mut report = BulkReport::default();
        report.change(id);
        assert_eq!(report.undoable(BulkAction::Disable), [id]);
        assert!(report.undoable(BulkAction::Delete).is_empty());
        report.changed += 1;
        assert!(report.undoable(BulkAction::Disable).is_empty());
    }
}
