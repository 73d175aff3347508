//! The jobs whose attempts end, and the states of their schedules, locked and brought up to date.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::batch::{Rows, STATES, State, running, states, unlocked};
use super::error::{Fault, Outcome};
use super::passing::{Busy, lock_followers, lock_free};
use super::runs::count_runs;
use crate::domain::{JobId, ScheduleId};
use crate::store::ending::{Ending, Running};
use crate::store::runs::counts;
use crate::store::{Completion, Locked, StoreErrorKind};

/// What becomes of the jobs, counted in the states of their schedules, which are locked then; and
/// the places of those that have to wait for others. Those whose claim was lost are left out, and
/// so is the second end of an attempt.
pub(super) async fn settle(
    connection: &mut PgConnection,
    completions: &[Completion],
    locked: Locked,
) -> Outcome<(Vec<Ending>, Busy)> {
    match locked {
        Locked::Awaited => {
            let endings = settle_unlocked(connection, completions).await?;
            Ok((endings, Busy::new()))
        }
        Locked::PassedOver => settle_free(connection, completions).await,
    }
}

/// The jobs are not locked, which would cost as much again: what is decided holds only if they are
/// still as they were read when they are written. If one is not, the batch is locked whole.
async fn settle_unlocked(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> Outcome<Vec<Ending>> {
    let running = running(connection, completions, unlocked()).await?;
    let mut endings = endings(completions, running)?;
    // All at once and in one order, unless counting takes them all.
    let is_uncounted = |ending: &Ending| ending.status.is_final() && !counts(ending);
    let mut known = match endings.iter().any(is_uncounted) {
        true => states(connection, completions, STATES).await?,
        false => Vec::new(),
    };
    known.append(&mut count_runs(connection, &endings).await?);
    find_active(&mut endings, &known);
    Ok(endings)
}

/// Locks whatever is free before anything is decided.
async fn settle_free(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> Outcome<(Vec<Ending>, Busy)> {
    let (Rows { states, mut running }, mut busy) = lock_free(connection, completions).await?;
    running.retain(|row| !busy.contains(&row.place));
    let mut endings = endings(completions, running)?;
    find_active(&mut endings, &states);
    let waiting = lock_followers(connection, &states, &endings).await?;
    endings.retain(|ending| !waiting.contains(&ending.place));
    busy.extend(waiting);
    count_runs(connection, &endings).await?;
    Ok((endings, busy))
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
