//! Checks the overlap policies: with `skip` and `queue_one`, at most one job of a tick runs at a
//! time.

use punctual::domain::Timestamp;
use punctual::domain::schedule::{OverlapPolicy, SkipReason};

use super::{Case, Seen};

pub fn judge(case: &Case) -> Vec<String> {
    let mut broken = Vec::new();
    let always = |policy| case.known.overlaps.iter().all(|had| *had == policy);
    if always(OverlapPolicy::Skip) || always(OverlapPolicy::QueueOne) {
        broken.extend(beside(case));
    }
    for skip in case.skips.iter().filter(|skip| skip.reason == SkipReason::Overlap.as_str()) {
        let blocks = |seen: &Seen, tick: Timestamp| {
            // A job blocks ticks until its end is stored, a little after the end itself.
            seen.job.scheduled_run_at < tick && seen.job.updated_at >= tick
        };
        for tick in [skip.first, skip.last] {
            if !case.tick_jobs().any(|seen| blocks(seen, tick)) {
                broken.push(format!("{} skipped {tick}, but nothing was in its way", case.id));
            }
        }
        if always(OverlapPolicy::Allow) {
            broken.push(format!("{} allows overlap and has {skip:?}", case.id));
        }
    }
    broken
}

/// Finds jobs of ticks that were active at the same time. A job is active from its start to its
/// end.
fn beside(case: &Case) -> Vec<String> {
    let span = |seen: &Seen| {
        let job = &seen.job;
        Some((job.started_at?, job.completed_at?, job.id))
    };
    let mut spans: Vec<_> = case.tick_jobs().filter_map(span).collect();
    spans.sort_unstable();
    let overlap = |pair: &&[_]| {
        let [(_, end, _), (start, ..)]: &[(Timestamp, Timestamp, _); 2] =
            (*pair).try_into().expect("a pair");
        start < end
    };
    let tell = |pair: &[_]| format!("{} ran two at once: {pair:?}", case.id);
    spans.windows(2).filter(overlap).map(tell).collect()
}
