//! The jobs whose attempts end, and the states of their schedules, locked.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::batch::{Rows, STATES, running};
use super::error::{Fault, Outcome};
use super::passing::{Busy, lock_followers, lock_free};
use crate::domain::{JobId, ScheduleId};
use crate::store::ending::{Ending, Running};
use crate::store::{Completion, Locked, StoreErrorKind};

/// What becomes of the jobs, and the places of those that have to wait for others. Those whose
/// claim was lost are left out, and so is the second end of an attempt.
pub(super) async fn read(
    connection: &mut PgConnection,
    completions: &[Completion],
    locked: Locked,
) -> Outcome<(Vec<Ending>, Busy)> {
    let (rows, mut busy) = match locked {
        Locked::Awaited => {
            (Rows::read(connection, completions, STATES, running()).await?, Busy::new())
        }
        Locked::PassedOver => lock_free(connection, completions).await?,
    };
    let Rows { states, mut running } = rows;
    running.retain(|row| !busy.contains(&row.place));
    let active: HashMap<ScheduleId, Option<JobId>> =
        states.iter().map(|state| (state.schedule, state.active)).collect();
    // In the order of the batch: the streak of failures depends on it.
    running.sort_unstable_by_key(|row| row.place);
    let damaged = || Fault::new(StoreErrorKind::Internal, "an answer about nothing that was asked");
    let (mut endings, mut seen) = (Vec::with_capacity(running.len()), HashSet::new());
    for row in running {
        let completion = completions.get(row.place).ok_or_else(damaged)?;
        if seen.insert(completion.job) {
            let is_active = active.get(&row.schedule) == Some(&Some(completion.job));
            endings.push(Ending::new(&Running { is_active, ..row }, completion));
        }
    }
    if locked == Locked::PassedOver {
        let waiting = lock_followers(connection, &states, &endings).await?;
        endings.retain(|ending| !waiting.contains(&ending.place));
        busy.extend(waiting);
    }
    Ok((endings, busy))
}
