//! One request of a bulk action.

use serde_json::json;

use super::action::{BulkAction, BulkTargets};
use super::report::BulkReport;
use crate::dashboard::form::request;
use crate::dashboard::schedules::view::ListView;
use crate::dashboard::text::sentence;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, PageError};
use crate::domain::call::Call;
use crate::domain::schedule::Schedule;
use crate::domain::{ScheduleId, Timestamp};
use crate::schedules::{CommandError, ScheduleSwitch};
use crate::store::{ScheduleQuery, ScheduleSort, SortField, SortValue};

/// The maximum number of schedules of one request. Each is changed in a transaction of its own,
/// with its entry in the audit log: a second or a few for all of them.
pub(super) const MAX_SCHEDULES: usize = 500;
/// The number of schedules that are read at once.
const READ: u32 = 100;

/// A bulk action on behalf of a visitor.
struct BulkStep<'a> {
    dashboard: &'a DashboardParts,
    visitor: &'a Visitor,
    call: Call,
    action: BulkAction,
    report: &'a mut BulkReport,
}

/// Changes at most [`MAX_SCHEDULES`] of the schedules, and counts them. Returns the schedules that
/// remain, if there are any.
pub(super) async fn run(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    call: Call,
    (action, targets, view): (BulkAction, BulkTargets, &ListView),
    report: &mut BulkReport,
) -> Result<Option<BulkTargets>, PageError> {
    let step = BulkStep { dashboard, visitor, call, action, report };
    match targets {
        BulkTargets::Chosen(ids) => step.chosen(ids).await,
        BulkTargets::Matching(after) => step.matching(after, view).await,
    }
}

impl BulkStep<'_> {
    async fn chosen(mut self, ids: Vec<ScheduleId>) -> Result<Option<BulkTargets>, PageError> {
        for (position, id) in ids.iter().enumerate() {
            let left = || Some(BulkTargets::Chosen(ids[position..].to_vec()));
            if position == MAX_SCHEDULES {
                return Ok(left());
            }
            let found = self.dashboard.schedules.get(self.visitor.account(), *id).await;
            let result = match found {
                Ok(schedule) => self.change(&schedule).await,
                Err(error) => Err(error),
            };
            if !self.count(*id, result)? {
                return Ok(left());
            }
        }
        Ok(None)
    }

    /// Walks over the schedules that match, newest first. Schedules that are created meanwhile are
    /// newer than the position, so the walk ends.
    async fn matching(
        mut self,
        mut after: Option<(Timestamp, ScheduleId)>,
        view: &ListView,
    ) -> Result<Option<BulkTargets>, PageError> {
        let mut seen = 0;
        loop {
            let query = ScheduleQuery {
                sort: ScheduleSort { field: SortField::CreatedAt, descending: true },
                after: after.map(|(at, id)| (SortValue::Time(Some(at)), id)),
                offset: 0,
                limit: READ,
                ..view.query()
            };
            let page = match self.dashboard.schedules.list(self.visitor.account(), &query).await {
                Ok(page) => page,
                Err(error) => {
                    self.stop(error)?;
                    return Ok(Some(BulkTargets::Matching(after)));
                }
            };
            for schedule in &page.schedules {
                let result = self.change(schedule).await;
                if !self.count(schedule.id, result)? {
                    return Ok(Some(BulkTargets::Matching(after)));
                }
                after = Some((schedule.created_at, schedule.id));
                seen += 1;
            }
            if !page.has_more || page.schedules.is_empty() {
                return Ok(None);
            }
            if seen >= MAX_SCHEDULES {
                return Ok(Some(BulkTargets::Matching(after)));
            }
        }
    }

    /// Changes one schedule. Returns `false` if it has the wanted state already.
    async fn change(&self, schedule: &Schedule) -> Result<bool, CommandError> {
        let (schedules, account) = (&self.dashboard.schedules, self.visitor.account());
        let Some(enabled) = self.action.switch() else {
            schedules.delete(account, self.call, schedule.id).await?;
            return Ok(true);
        };
        if schedule.is_enabled == enabled {
            return Ok(false);
        }
        let switch: ScheduleSwitch =
            request(&json!({ "enabled": enabled })).map_err(|_| CommandError::Panicked)?;
        schedules.toggle(account, self.call, schedule.id, switch).await?;
        Ok(true)
    }

    /// Counts the result for one schedule. Returns `false` if the action has to stop.
    fn count(
        &mut self,
        id: ScheduleId,
        result: Result<bool, CommandError>,
    ) -> Result<bool, PageError> {
        match result {
            Ok(true) => self.report.change(id),
            Ok(false) => self.report.unchanged = self.report.unchanged.saturating_add(1),
            // Another user has deleted it since the list was read.
            Err(CommandError::NoSuchSchedule) => {}
            Err(
                error @ (CommandError::Contended
                | CommandError::Invalid(_)
                | CommandError::LimitExceeded(_)),
            ) => self.report.fail(sentence(&error.to_string())),
            Err(error) => {
                self.stop(error)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stops the action. If it has done nothing yet, there is only the error to show.
    fn stop(&mut self, error: CommandError) -> Result<(), PageError> {
        let error = PageError::from(error);
        if self.report.changed == 0 && self.report.failures.is_empty() {
            return Err(error);
        }
        tracing::warn!(?error, changed = self.report.changed, "a bulk action of a page stopped");
        self.report.stopped = Some(error);
        Ok(())
    }
}
