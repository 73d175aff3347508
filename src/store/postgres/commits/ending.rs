//! The jobs whose attempts end, and the states of their schedules: locks them, and updates the
//! states.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::batch::{LockedState, RUNNING, STATES, StoredRows, running, states};
use super::runs::{CountedStates, count_runs};
use super::skip_locked::{BusyPositions, lock_followers, lock_free};
use crate::domain::{JobId, ScheduleId};
use crate::runtime::faults;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::jobs::ending::{JobEnding, RunningJob};
use crate::store::sql::jobs::runs::counts;
use crate::store::sql::notifications::rows::AlertState;
use crate::store::{Completion, StoreErrorKind};

/// The way in which a batch deals with locked and changed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) enum LockMode {
    /// Waits for the states of the schedules, and does not lock the jobs, which would cost as much
    /// as writing them. It takes the jobs as their claims have returned them, or reads them without
    /// a lock. So the decision holds only if the jobs are still unchanged when they are written.
    /// Otherwise the batch fails with
    /// [`Remedy::PassOver`](crate::store::sql::error::Remedy::PassOver).
    Optimistic,
    /// Locks the rows that are free, reads them, and skips the others. So a commit of 500 jobs
    /// takes 0.27 s instead of 0.007 s while one of its runs is held: one lock timeout and this
    /// second try (`tests/servers cargo bench --bench store`). Halving the batch until the held run
    /// is alone would wait for nine lock timeouts of 0.25 s.
    SkipLocked,
}

/// The results for the jobs of a batch.
#[derive(Default)]
pub(in crate::store::postgres) struct SettledBatch {
    /// The ends that take effect. Those whose claim was lost are left out, and so is the second end
    /// of an attempt.
    pub(in crate::store::postgres) endings: Vec<JobEnding>,
    /// The positions in the batch of the ends that have to wait for locked rows.
    pub(in crate::store::postgres) busy: BusyPositions,
    /// The schedules that have a notification preference, in the state before this batch.
    pub(in crate::store::postgres) alerts: Vec<AlertState>,
}

/// Decides what becomes of the jobs, and counts it in the states of their schedules. The states
/// stay locked until the transaction ends.
pub(in crate::store::postgres) async fn settle(
    connection: &mut PgConnection,
    completions: &[Completion],
    mode: LockMode,
) -> SqlResult<SettledBatch> {
    match mode {
        LockMode::Optimistic => settle_unlocked(connection, completions).await,
        LockMode::SkipLocked => settle_free(connection, completions).await,
    }
}

async fn settle_unlocked(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> SqlResult<SettledBatch> {
    let (mut running_jobs, mut unclaimed) = (Vec::with_capacity(completions.len()), Vec::new());
    for (position, completion) in completions.iter().enumerate() {
        match RunningJob::claimed(position, completion) {
            Some(job) => running_jobs.push(job),
            None => unclaimed.push((position, completion)),
        }
    }
    let unlocked = faults::statement("running", RUNNING);
    running_jobs.append(&mut running(connection, &unclaimed, unlocked).await?);
    let mut endings = endings(completions, running_jobs)?;
    // Locks all states at once, in one order, unless counting locks all of them anyway. A retry
    // needs the lock, too: a transaction that deletes the schedule holds the state while it waits
    // for the schedule's jobs in the order of their ids, and this batch locks jobs in any order.
    let mut known = match endings.iter().all(counts) {
        true => Vec::new(),
        false => states(connection, completions, STATES).await?,
    };
    let CountedStates { mut states, alerts } = count_runs(connection, &endings).await?;
    known.append(&mut states);
    find_active(&mut endings, &known);
    Ok(SettledBatch { endings, alerts, ..SettledBatch::default() })
}

async fn settle_free(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> SqlResult<SettledBatch> {
    let (StoredRows { states, mut running }, mut busy) = lock_free(connection, completions).await?;
    running.retain(|row| !busy.contains(&row.position));
    let mut endings = endings(completions, running)?;
    find_active(&mut endings, &states);
    let waiting = lock_followers(connection, &states, &endings).await?;
    endings.retain(|ending| !waiting.contains(&ending.position));
    busy.extend(waiting);
    let CountedStates { alerts, .. } = count_runs(connection, &endings).await?;
    Ok(SettledBatch { endings, busy, alerts })
}

/// Returns the ends in the order of the batch, because the streak of failures depends on it.
fn endings(completions: &[Completion], mut running: Vec<RunningJob>) -> SqlResult<Vec<JobEnding>> {
    running.sort_unstable_by_key(|row| row.position);
    let damaged = || SqlError::new(StoreErrorKind::Internal, "a row that was not asked for");
    let (mut endings, mut seen) = (Vec::with_capacity(running.len()), HashSet::new());
    for row in running {
        let completion = completions.get(row.position).ok_or_else(damaged)?;
        if seen.insert(completion.job) {
            endings.push(JobEnding::new(&row, completion));
        }
    }
    Ok(endings)
}

/// Marks the jobs that are the active jobs of their schedules.
fn find_active(endings: &mut [JobEnding], states: &[LockedState]) {
    let active: HashMap<ScheduleId, Option<JobId>> =
        states.iter().map(|state| (state.schedule, state.active)).collect();
    for ending in endings {
        ending.is_active = active.get(&ending.schedule) == Some(&Some(ending.job));
    }
}
