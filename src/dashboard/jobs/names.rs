//! The names of the schedules that jobs belong to.

use std::collections::{BTreeMap, BTreeSet};

use crate::dashboard::{DashboardParts, PageError};
use crate::domain::job::Job;
use crate::domain::{AccountId, ScheduleId};
use crate::schedules::CommandError;

/// The maximum number of schedules whose names are looked up. Beyond it, links show ids.
const MAX_NAMES: usize = 20;

/// The names of schedules by their ids.
pub(in crate::dashboard) type ScheduleNames = BTreeMap<ScheduleId, String>;

/// Returns the names of the schedules of these jobs. A deleted schedule has none.
pub(in crate::dashboard) async fn names(
    dashboard: &DashboardParts,
    account: AccountId,
    jobs: &[Job],
) -> Result<ScheduleNames, PageError> {
    let ids: BTreeSet<ScheduleId> = jobs.iter().map(|job| job.schedule_id).collect();
    let mut names = ScheduleNames::new();
    for id in ids.into_iter().take(MAX_NAMES) {
        match dashboard.schedules.get(account, id).await {
            Ok(schedule) => {
                names.insert(id, schedule.name);
            }
            Err(CommandError::NoSuchSchedule) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(names)
}
