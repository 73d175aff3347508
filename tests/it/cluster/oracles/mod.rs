//! The invariants of every history, as functions that return the violations.
//!
//! I1 no tick is lost; I2 no tick runs twice; I3 attempts are numbered and bounded; I4 no job
//! hangs; I5 final jobs do not change; I6 store and target agree; I7 responses to users stay true;
//! I8 no tick is early, and without faults, jobs start promptly; I9 accounts do not see each other;
//! I10 each shard has one leader; I11 the next tick is in the future; I12 nothing leaks; I13 each
//! end of a job is alerted.

mod alerts;
mod attempts;
mod leaders;
mod promises;
mod tests;
mod ticks;
mod upkeep;

use std::collections::BTreeSet;
use std::fmt;

use super::history::History;
pub use ticks::{lags, lateness};

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The invariant.
    pub of: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.what)
    }
}

fn violation(of: &'static str, what: impl Into<String>) -> Violation {
    Violation { of, what: what.into() }
}

/// Returns all violations of a run.
pub fn judge(history: &History) -> Vec<Violation> {
    let oracles = [
        ticks::each_tick_is_a_job_or_a_skip,
        ticks::no_tick_is_doubled,
        ticks::nothing_is_early,
        ticks::nothing_is_very_late,
        ticks::the_next_tick_lies_ahead,
        attempts::attempts_are_numbered_and_bounded,
        attempts::all_jobs_end,
        attempts::ends_are_final,
        attempts::attempts_take_their_time,
        attempts::store_and_target_agree,
        promises::acknowledged_changes_stay,
        promises::refusals_have_their_reasons,
        promises::accounts_do_not_see_each_other,
        leaders::each_write_is_by_the_newest_leader,
        upkeep::nothing_leaks,
        alerts::each_end_is_reported,
    ];
    oracles.iter().flat_map(|oracle| oracle(history)).collect()
}

/// Returns the violated invariants.
pub fn names(violations: &[Violation]) -> BTreeSet<&'static str> {
    violations.iter().map(|violation| violation.of).collect()
}

/// Formats the first violations for people.
pub fn formatted(violations: &[Violation]) -> String {
    let mut lines: Vec<_> = violations.iter().take(30).map(ToString::to_string).collect();
    lines.push(format!("{} in all", violations.len()));
    lines.join("\n")
}
