//! The jobs whose attempts end, and the states of their schedules, locked and brought up to date.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::batch::{Rows, STATES, State, running, states, unlocked};
use super::passing::{Busy, lock_followers, lock_free};
use super::runs::{Counted, count_runs};
use crate::domain::{JobId, ScheduleId};
use crate::store::alert_rows::AlertState;
use crate::store::ending::{Ending, Running};
use crate::store::runs::counts;
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::{Completion, StoreErrorKind};

/// How a batch deals with the rows that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It waits for the states, and takes the jobs to be as their claims have told, or as it reads
    /// them without a lock, which would cost as much as writing them: what is decided holds only if
    /// that is how they still are when they are written. Otherwise it fails, with
    /// [`Remedy::PassOver`](crate::store::sql::fault::Remedy::PassOver).
    Trusting,
    /// It locks what is free, and reads it.
    Passing,
}

/// What becomes of the jobs of a batch.
#[derive(Default)]
pub(super) struct Settled {
    /// Those whose claim was lost are left out, and so is the second end of an attempt.
    pub(super) endings: Vec<Ending>,
    /// The places of those that have to wait for others.
    pub(super) busy: Busy,
    /// The schedules that have a notification preference, as they were before.
    pub(super) alerts: Vec<AlertState>,
}

/// What becomes of the jobs, counted in the states of their schedules, which are locked then.
pub(super) async fn settle(
    connection: &mut PgConnection,
    completions: &[Completion],
    manner: Manner,
) -> Outcome<Settled> {
    match manner {
        Manner::Trusting => settle_unlocked(connection, completions).await,
        Manner::Passing => settle_free(connection, completions).await,
    }
}

async fn settle_unlocked(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> Outcome<Settled> {
    let (mut running_jobs, mut untold) = (Vec::with_capacity(completions.len()), Vec::new());
    for (place, completion) in completions.iter().enumerate() {
        match Running::told(place, completion) {
            Some(told) => running_jobs.push(told),
            None => untold.push((place, completion)),
        }
    }
    running_jobs.append(&mut running(connection, &untold, unlocked()).await?);
    let mut endings = endings(completions, running_jobs)?;
    // All at once, in one order, unless counting takes them all. A retry needs the lock, too: whoever
    // deletes the schedule has it while they wait for its jobs in the order of their ids, and this
    // batch takes jobs in any order.
    let mut known = match endings.iter().all(counts) {
        true => Vec::new(),
        false => states(connection, completions, STATES).await?,
    };
    let Counted { mut states, alerts } = count_runs(connection, &endings).await?;
    known.append(&mut states);
    find_active(&mut endings, &known);
    Ok(Settled { endings, alerts, ..Settled::default() })
}

async fn settle_free(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> Outcome<Settled> {
    let (Rows { states, mut running }, mut busy) = lock_free(connection, completions).await?;
    running.retain(|row| !busy.contains(&row.place));
    let mut endings = endings(completions, running)?;
    find_active(&mut endings, &states);
    let waiting = lock_followers(connection, &states, &endings).await?;
    endings.retain(|ending| !waiting.contains(&ending.place));
    busy.extend(waiting);
    let Counted { alerts, .. } = count_runs(connection, &endings).await?;
    Ok(Settled { endings, busy, alerts })
}

/// In the order of the batch: the streak of failures depends on it.
fn endings(completions: &[Completion], mut running: Vec<Running>) -> Outcome<Vec<Ending>> {
    running.sort_unstable_by_key(|row| row.place);
    let damaged = || Fault::new(StoreErrorKind::Internal, "an answer about nothing that was asked");
    let (mut endings, mut seen) = (Vec::with_capacity(running.len()), HashSet::new());
    for row in running {
        let completion = completions.get(row.place).ok_or_else(damaged)?;
        if seen.insert(completion.job) {
            endings.push(Ending::new(&row, completion));
        }
    }
    Ok(endings)
}

/// Tells which of the jobs are their schedules' active ones.
fn find_active(endings: &mut [Ending], states: &[State]) {
    let active: HashMap<ScheduleId, Option<JobId>> =
        states.iter().map(|state| (state.schedule, state.active)).collect();
    for ending in endings {
        ending.is_active = active.get(&ending.schedule) == Some(&Some(ending.job));
    }
}
