//! Ticks: none is lost, doubled or early.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Answer, ApiOperation, History, Job};
use super::super::lapse::MINUTE;
use super::{Violation, violation};

/// The tolerance for early requests, in real milliseconds: two clocks are rounded.
const EARLY_MS: i64 = 50;
/// The maximum difference between the clocks of replicas, in real milliseconds.
pub(super) const APART_MS: i64 = 20;
/// The time before a change in which a due tick may have been dropped, in real milliseconds: during
/// a fault, and otherwise.
const DROP_WINDOW_IN_FAULT_MS: i64 = 10_000;
const DROP_WINDOW_MS: i64 = 3_000;
/// The maximum median of the start lag of jobs without faults, in real milliseconds. A busy machine
/// takes some hundred milliseconds.
const USUAL_LAG_MS: i64 = 1_500;

/// A time in which the recurrence of a schedule is certain, on the service's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    from: i64,
    to: i64,
    /// The interval of the ticks, or 0 without ticks.
    minutes: i64,
    /// `true` if a change follows, before which a late tick may have been dropped.
    is_followed: bool,
}

impl Segment {
    fn ticks(&self, to: i64) -> impl Iterator<Item = i64> {
        let step = self.minutes * MINUTE;
        let first = if step == 0 { i64::MAX } else { (self.from / step + 1) * step };
        let count = if first > to { 0 } else { (to - first) / step + 1 };
        (0..count).map(move |n| first + n * step)
    }
}

/// A change of a schedule: its start, its end, `true` if its success is certain, and the interval
/// after it. `None` means the interval before the schedule was switched off.
type Change = (i64, i64, bool, Option<i64>);

/// Returns the expected recurrences of each schedule, from the calls of the users and their
/// results.
fn segments(history: &History) -> BTreeMap<String, Vec<Segment>> {
    let lapse = history.lapse;
    let mut changes: BTreeMap<&str, Vec<Change>> = BTreeMap::new();
    for call in &history.calls {
        let (begun, ended) = (lapse.service_time(call.begun_at), lapse.service_time(call.ended_at));
        let done = matches!(call.answer, Answer::Done(_));
        let mut change = |id, minutes| {
            changes.entry(id).or_default().push((begun, ended, done, minutes));
        };
        match &call.operation {
            ApiOperation::Create { minutes, .. } => {
                let Answer::Done(ids) = &call.answer else { continue };
                ids.iter().for_each(|id| change(id, Some(*minutes)));
            }
            ApiOperation::Switch { schedule, on: true } => change(schedule, None),
            ApiOperation::Switch { schedule, on: false } | ApiOperation::Delete { schedule } => {
                change(schedule, Some(0));
            }
            ApiOperation::Change { schedule, minutes, .. } => change(schedule, Some(*minutes)),
            ApiOperation::Trigger { .. } | ApiOperation::Read { .. } | ApiOperation::Other => {}
        }
    }
    let sorted = changes.into_iter().map(|(id, mut changes)| {
        changes.sort_unstable();
        (id.to_owned(), of_one(&changes))
    });
    sorted.collect()
}

fn of_one(changes: &[Change]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut usual = 0;
    for (index, (_, ended, done, minutes)) in changes.iter().enumerate() {
        usual = minutes.filter(|minutes| *minutes > 0).unwrap_or(usual);
        let next = changes.get(index + 1);
        // After a call without a response, nothing is certain until the next response.
        if *done {
            segments.push(Segment {
                from: *ended,
                to: next.map_or(i64::MAX, |next| next.0),
                minutes: minutes.unwrap_or(usual),
                is_followed: next.is_some(),
            });
        }
    }
    segments
}

/// I1: each tick is in a job or a skip.
pub fn each_tick_is_a_job_or_a_skip(history: &History) -> Vec<Violation> {
    let jobs = ticks_of_jobs(history);
    let mut found = Vec::new();
    for (schedule, segments) in segments(history) {
        for segment in segments {
            let is_open = segment.to > history.cut || !segment.is_followed;
            let end =
                if is_open { history.cut } else { segment.to - drop_window(history, segment.to) };
            for tick in segment.ticks(end) {
                let is_job = jobs.contains_key(&(schedule.as_str(), tick));
                if !is_job && !is_skipped(history, &schedule, tick) {
                    found.push(violation("I1", format!("{schedule} has lost the tick {tick}")));
                }
            }
            let own = history.skips.iter().filter(|skip| skip.schedule == schedule);
            let within = own.filter(|skip| segment.from < skip.first && skip.last < segment.to);
            for skip in within.filter(|_| segment.minutes > 0) {
                if skip.count != (skip.last - skip.first) / (segment.minutes * MINUTE) + 1 {
                    found.push(violation("I1", format!("it counts wrong: {skip:?}")));
                }
            }
        }
    }
    found
}

/// Returns the time before this change in which a due tick may have been dropped.
fn drop_window(history: &History, change: i64) -> i64 {
    let at = history.lapse.at(change);
    let has_fault = history.has_fault(at - DROP_WINDOW_IN_FAULT_MS, at);
    history.lapse.factor * if has_fault { DROP_WINDOW_IN_FAULT_MS } else { DROP_WINDOW_MS }
}

fn is_skipped(history: &History, schedule: &str, tick: i64) -> bool {
    let mut skips = history.skips.iter().filter(|skip| skip.schedule == schedule);
    skips.any(|skip| (skip.first..=skip.last).contains(&tick))
}

fn ticks_of_jobs(history: &History) -> BTreeMap<(&str, i64), Vec<&Job>> {
    let mut ticks: BTreeMap<_, Vec<&Job>> = BTreeMap::new();
    for job in history.jobs.iter().filter(|job| job.is_of_tick()) {
        ticks.entry((job.schedule.as_str(), job.tick)).or_default().push(job);
    }
    ticks
}

/// I2: no tick has two jobs, and no job exists without a tick (TICK-4).
pub fn no_tick_is_doubled(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for ((schedule, tick), jobs) in ticks_of_jobs(history) {
        if jobs.len() > 1 {
            let ids: Vec<_> = jobs.iter().map(|job| &job.id).collect();
            found.push(violation("I2", format!("{schedule} has {tick} as {ids:?}")));
        }
        if is_skipped(history, schedule, tick) {
            let what = format!("{schedule} has {tick} as a job and in a skip");
            found.push(violation("I2", what));
        }
    }
    for (schedule, segments) in segments(history) {
        for job in history.jobs.iter().filter(|job| job.schedule == schedule && job.is_of_tick()) {
            let apart = APART_MS * history.lapse.factor;
            let within = |s: &&Segment, at: i64| s.from + apart < at && at < s.to - apart;
            if segments.iter().any(|s| s.minutes == 0 && within(&s, job.created)) {
                found.push(violation("I2", format!("{} was made of a tick while off", job.id)));
            }
            if segments.iter().any(|s| s.minutes == 0 && within(&s, job.tick)) {
                found.push(violation("I2", format!("{} is of a tick that fell while off", job.id)));
            }
            let stray = |s: &Segment| {
                s.minutes > 0 && within(&s, job.tick) && job.tick % (s.minutes * MINUTE) != 0
            };
            if segments.iter().any(stray) {
                found.push(violation("I2", format!("{} is of no tick of {schedule}", job.id)));
            }
        }
    }
    let mut ids = BTreeSet::new();
    let twice = history.jobs.iter().filter(|job| !ids.insert(&job.id));
    found.extend(twice.map(|job| violation("I2", format!("{} is listed twice", job.id))));
    found
}

/// I8: no request is sent before its tick.
pub fn nothing_is_early(history: &History) -> Vec<Violation> {
    let jobs: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let early = |hit: &&super::super::history::Hit| {
        let allowed = history.lapse.service_time(hit.at + EARLY_MS);
        jobs.get(hit.job.as_str()).is_some_and(|job| allowed < job.tick)
    };
    let early = history.hits.iter().filter(early);
    early.map(|hit| violation("I8", format!("{} was sent before its tick", hit.job))).collect()
}

/// Returns the lags between ticks and the creation of their jobs, in real milliseconds, sorted.
pub fn lateness(history: &History) -> Vec<i64> {
    let counts = |job: &&Job| job.is_of_tick() && !history.held_up.contains(&job.schedule);
    let ticked = history.jobs.iter().filter(counts);
    let mut late: Vec<_> = ticked.map(|job| history.lapse.real(job.created - job.tick)).collect();
    late.sort_unstable();
    late
}

/// Returns the times from the creation of jobs to their first request, in real milliseconds,
/// sorted.
pub fn lags(history: &History) -> Vec<i64> {
    let created: BTreeMap<_, _> =
        history.jobs.iter().map(|job| (job.id.as_str(), job.created)).collect();
    let first = history.hits.iter().filter(|hit| hit.attempt == 1);
    let lag = |hit: &super::super::history::Hit| {
        let created = created.get(hit.job.as_str())?;
        Some(history.lapse.real(history.lapse.service_time(hit.at) - created))
    };
    let mut lags: Vec<_> = first.filter_map(lag).collect();
    lags.sort_unstable();
    lags
}

/// I8: ticks fire within the bound of the run. Without faults, jobs start promptly, and by their
/// tickets: the job rescuer, which passes every 2 s, meets few jobs that still wait. It meets each
/// job that has lost its ticket, however fast the machine is.
pub fn nothing_is_very_late(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    if let (Some(bound), Some(latest)) = (history.latest_ms, lateness(history).last())
        && *latest > bound
    {
        found.push(violation(
            "I8",
            format!("a tick was fired {latest} ms late, the limit is {bound}"),
        ));
    }
    let lags = lags(history);
    if let Some(median) = lags.get(lags.len() / 2)
        && history.prompt
        && *median > USUAL_LAG_MS
    {
        found.push(violation("I8", format!("half of the jobs wait {median} ms for their start")));
    }
    let (rescued, jobs) = (history.rescued, history.jobs.len() as u64);
    if history.prompt && rescued * 2 > jobs {
        found.push(violation("I8", format!("{rescued} tickets of {jobs} jobs were pushed again")));
    }
    found
}

/// I11: the next tick of an enabled schedule is in the future. A due one may be under way.
pub fn the_next_tick_lies_ahead(history: &History) -> Vec<Violation> {
    let under_way = MINUTE.max(5_000 * history.lapse.factor);
    let stuck = history.schedules.iter().filter(|schedule| {
        let ahead = schedule.next.is_some_and(|next| next + under_way > history.read);
        schedule.enabled && !ahead
    });
    let what = |id: &str, next| format!("{id} stands at {next:?} at {}", history.read);
    stuck.map(|schedule| violation("I11", what(&schedule.id, schedule.next))).collect()
}
