//! Commits a batch without waiting for rows that another transaction has locked.
//!
//! All rows that the end of an attempt changes are locked before anything is written: its
//! schedule's state, its job, and the held job that may follow it. If one of them is not free, the
//! whole end is left out, to be committed later.
//!
//! A row that was not locked may be locked by another transaction, or be gone. So the same rows are
//! read again without a lock. A row that exists and was not locked belongs to another transaction
//! for now.

use std::collections::HashSet;
use std::sync::LazyLock;

use sqlx::PgConnection;

use super::batch::{LockedState, RUNNING, STATES, StoredRows};
use crate::domain::{JobId, ScheduleId};
use crate::store::Completion;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::{JobEnding, RunningJob};

static FREE_STATES: LazyLock<String> = LazyLock::new(|| format!("{STATES} SKIP LOCKED"));
static ALL_STATES: LazyLock<String> =
    LazyLock::new(|| STATES.replace("FOR NO KEY UPDATE OF st", ""));
static FREE_RUNNING: LazyLock<String> =
    LazyLock::new(|| RUNNING.replace("OFFSET 0", "FOR NO KEY UPDATE SKIP LOCKED"));

const ALL_WAITING: &str = "
    SELECT id FROM runs WHERE id = ANY ($1)";
const FREE_WAITING: &str = "
    SELECT id FROM runs WHERE id = ANY ($1)
    ORDER BY id FOR UPDATE SKIP LOCKED";

/// The positions in a batch of the ends that have to wait for locked rows.
pub(in crate::store::postgres) type BusyPositions = HashSet<usize>;

/// Locks the rows of a batch that are free. Returns them, and the positions that have to wait for
/// the others.
pub(in crate::store::postgres) async fn lock_free(
    connection: &mut PgConnection,
    completions: &[Completion],
) -> SqlResult<(StoredRows, BusyPositions)> {
    let rows = StoredRows::read(connection, completions, &FREE_STATES, &FREE_RUNNING).await?;
    let all = StoredRows::read(connection, completions, &ALL_STATES, RUNNING).await?;
    let free: HashSet<ScheduleId> = rows.states.iter().map(|state| state.schedule).collect();
    let there: HashSet<ScheduleId> = all.states.iter().map(|state| state.schedule).collect();
    let locked: HashSet<usize> = rows.running.iter().map(|row| row.position).collect();
    let must_wait = |row: &&RunningJob| {
        let is_held = there.contains(&row.schedule) && !free.contains(&row.schedule);
        is_held || !locked.contains(&row.position)
    };
    let busy = rows.running.iter().chain(&all.running).filter(must_wait);
    let busy = busy.map(|row| row.position).collect();
    Ok((rows, busy))
}

/// Locks the free ones of the held jobs that follow the ended ones. Returns the positions that have
/// to wait for the others.
pub(in crate::store::postgres) async fn lock_followers(
    connection: &mut PgConnection,
    states: &[LockedState],
    endings: &[JobEnding],
) -> SqlResult<BusyPositions> {
    let ended: HashSet<JobId> =
        endings.iter().filter_map(JobEnding::ended).map(|ended| ended.job).collect();
    let follows = |state: &&LockedState| state.active.is_some_and(|active| ended.contains(&active));
    let held: Vec<JobId> = states.iter().filter(follows).filter_map(|state| state.held).collect();
    if held.is_empty() {
        return Ok(BusyPositions::new());
    }
    let mut read = async |query| -> SqlResult<HashSet<JobId>> {
        let query = sqlx::query_scalar(query).bind(&held);
        Ok(query.fetch_all(&mut *connection).await?.into_iter().collect())
    };
    let free = read(FREE_WAITING).await?;
    let all = read(ALL_WAITING).await?;
    let is_held = |state: &&LockedState| {
        state.held.is_some_and(|held| all.contains(&held) && !free.contains(&held))
    };
    let schedules: HashSet<ScheduleId> =
        states.iter().filter(is_held).map(|state| state.schedule).collect();
    let waits =
        |ending: &&JobEnding| ending.ended().is_some() && schedules.contains(&ending.schedule);
    Ok(endings.iter().filter(waits).map(|ending| ending.position).collect())
}
