//! Responses to users: they stay true, errors have reasons, and no account sees another.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Answer, ApiOperation, Call, History, Job, Probe};
use super::ticks::APART_MS;
use super::{Violation, violation};

/// I7 and, for triggers, I2: each accepted trigger has exactly one job.
pub fn acknowledged_changes_stay(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let jobs: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let deleted: BTreeSet<_> = history.calls.iter().filter_map(deleted).collect();
    let there: BTreeMap<_, _> =
        history.schedules.iter().map(|schedule| (schedule.id.as_str(), schedule)).collect();
    let (mut promised, mut unanswered) = (BTreeSet::new(), 0);
    for call in &history.calls {
        match (&call.operation, &call.answer) {
            (ApiOperation::Create { names, .. }, Answer::Done(ids)) => {
                let lost = ids.iter().filter(|id| {
                    !there.contains_key(id.as_str()) && !deleted.contains(id.as_str())
                });
                let lost: Vec<_> = lost.collect();
                if !lost.is_empty() || ids.len() != names.len() {
                    found.push(violation("I7", format!("created and gone: {lost:?} of {names:?}")));
                }
            }
            (ApiOperation::Create { names, .. }, _) => found.extend(half(history, names)),
            (ApiOperation::Trigger { .. }, Answer::Done(ids)) => {
                for id in ids {
                    promised.insert(id.as_str());
                    if jobs.get(id.as_str()).is_none_or(|job| job.trigger != "manual") {
                        found.push(violation("I7", format!("the job {id} was promised")));
                    }
                }
            }
            (ApiOperation::Trigger { .. }, _) => unanswered += 1,
            (ApiOperation::Delete { schedule }, Answer::Done(_))
                if there.contains_key(schedule.as_str()) =>
            {
                found.push(violation("I7", format!("{schedule} was deleted and is there")));
            }
            (ApiOperation::Read { job }, Answer::Refused { status: 404, .. }) => {
                found.push(violation("I7", format!("the promised job {job} is not found")));
            }
            _ => {}
        }
    }
    let extra = history.jobs.iter().filter(|job| job.trigger == "manual");
    let extra = extra.filter(|job| !promised.contains(job.id.as_str())).count();
    if extra > unanswered {
        found.push(violation("I2", format!("{extra} jobs by hand, of {unanswered} unanswered")));
    }
    found.extend(switched(history));
    found.extend(changed(history));
    found
}

/// Finds jobs that violate a change: a job that was made after the response to a change and before
/// the next change must send the body of that change.
fn changed(history: &History) -> Vec<Violation> {
    let mut changes: BTreeMap<&str, Vec<(&Call, &str)>> = BTreeMap::new();
    for call in &history.calls {
        if let ApiOperation::Change { schedule, body, .. } = &call.operation {
            changes.entry(schedule).or_default().push((call, body));
        }
    }
    let apart = APART_MS * history.lapse.factor;
    let mut found = Vec::new();
    for (schedule, mut changes) in changes {
        changes.sort_unstable_by_key(|(call, _)| call.begun_at);
        for (index, (call, body)) in changes.iter().enumerate() {
            let next = changes.get(index + 1);
            let until = next
                .map_or(i64::MAX, |(next, _)| history.lapse.service_time(next.begun_at) - apart);
            let span = history.lapse.service_time(call.ended_at) + apart..until;
            let other = |job: &&Job| {
                job.schedule == schedule && span.contains(&job.created) && job.body != *body
            };
            if matches!(call.answer, Answer::Done(_)) {
                let others = history.jobs.iter().filter(other);
                let what = |job: &Job| format!("{} is as {schedule} was before {body}", job.id);
                found.extend(others.map(|job| violation("I7", what(job))));
            }
        }
    }
    found
}

fn deleted(call: &Call) -> Option<&str> {
    match &call.operation {
        ApiOperation::Delete { schedule } => Some(schedule),
        _ => None,
    }
}

/// Finds a batch without a response that exists in part. It must exist completely or not at all.
fn half(history: &History, names: &[String]) -> Option<Violation> {
    let there = names.iter().filter(|name| history.schedules.iter().any(|s| s.name == **name));
    let there = there.count();
    let what = format!("{there} of a batch of {}", names.len());
    (there != 0 && there != names.len()).then(|| violation("I7", what))
}

/// Finds schedules that differ from their last successful switch, unless a later one got no
/// response.
fn switched(history: &History) -> Vec<Violation> {
    let mut last: BTreeMap<&str, (&Answer, bool)> = BTreeMap::new();
    for call in &history.calls {
        if let ApiOperation::Switch { schedule, on } = &call.operation {
            last.insert(schedule, (&call.answer, *on));
        }
    }
    let wrong = history.schedules.iter().filter(|schedule| {
        let last = last.get(schedule.id.as_str());
        last.is_some_and(|(answer, on)| {
            matches!(answer, Answer::Done(_)) && *on != schedule.enabled
        })
    });
    wrong
        .map(|schedule| violation("I7", format!("switched and switched back: {schedule:?}")))
        .collect()
}

/// I7: a call fails only during a fault, and then with the documented error.
pub fn refusals_have_their_reasons(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &history.calls {
        let excused = history.has_fault(call.begun_at, call.ended_at);
        let fine = match &call.answer {
            Answer::Done(_) => true,
            Answer::Lost => excused,
            Answer::Refused { status: 503, code } => excused && code == "SERVICE_UNAVAILABLE",
            Answer::Refused { status: 400, code } => {
                matches!(call.operation, ApiOperation::Other) && code == "VALIDATION_ERROR"
            }
            // `acknowledged_changes_stay` checks reads.
            Answer::Refused { status: 404, .. } => {
                matches!(call.operation, ApiOperation::Read { .. })
            }
            Answer::Refused { .. } => false,
        };
        if !fine {
            found.push(violation("I7", format!("it was not done: {call:?}")));
        }
    }
    found
}

/// I9: an account cannot tell objects of other accounts from unknown ones.
pub fn accounts_do_not_see_each_other(history: &History) -> Vec<Violation> {
    let answered = |answer: &(u16, String)| answer.0 != 0 && answer.0 < 500;
    let told = history.probes.iter().filter(|probe| {
        let both = answered(&probe.of_other) && answered(&probe.of_unknown);
        both && probe.of_other != probe.of_unknown
    });
    let tells = |probe: &Probe| {
        format!("the responses to another account differ for {}: {probe:?}", probe.what)
    };
    let mut found: Vec<_> = told.map(|probe| violation("I9", tells(probe))).collect();
    let mut made = BTreeMap::new();
    for call in &history.calls {
        if let (ApiOperation::Create { names, .. }, Answer::Done(ids)) =
            (&call.operation, &call.answer)
        {
            let named = ids.iter().zip(names);
            made.extend(named.map(|(id, name)| (id.as_str(), (call.account, name))));
        }
    }
    for schedule in &history.schedules {
        let as_made = made.get(schedule.id.as_str());
        if as_made.is_some_and(|as_made| *as_made != (schedule.account, &schedule.name)) {
            found.push(violation(
                "I9",
                format!("of another account, or changed by it: {schedule:?}"),
            ));
        }
    }
    for job in &history.jobs {
        let owner = made.get(job.schedule.as_str()).map(|(account, _)| *account);
        if owner.is_some_and(|owner| owner != job.account) {
            found.push(violation("I9", format!("shown to another account: {job:?}")));
        }
    }
    found
}
