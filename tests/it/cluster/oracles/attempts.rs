//! Jobs and attempts: bounded, numbered, final, and as seen by the target.

use std::collections::BTreeMap;

use super::super::history::{History, Job};
use super::ticks::APART_MS;
use super::{Violation, violation};

/// The maximum time for the attempts of a job without the waits in between. It includes the time to
/// find a lost ticket.
const ATTEMPTS_MS: i64 = 10_000;
/// The maximum difference between the duration of an exchange, on the monotonic clock, and of its
/// attempt. The service's clock is adjusted to that of the store in the meantime.
const TIMES_APART_MS: i64 = 50;

/// I3: attempts are numbered without gaps, and their number is bounded.
pub fn attempts_are_numbered_and_bounded(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for job in &history.jobs {
        let mut wrong = |what: &str| found.push(violation("I3", format!("{what}: {job:?}")));
        if job.number > job.most {
            wrong("more attempts than allowed");
        }
        let numbers: Vec<_> = job.attempts.iter().map(|attempt| attempt.number).collect();
        if numbers != (1..=job.number).collect::<Vec<_>>() {
            wrong("attempts are not numbered in turn");
        }
        let hits: Vec<_> = history.hits_of(&job.id).map(|hit| (hit.attempt, hit.at)).collect();
        if !hits.is_sorted_by(|(a, _), (b, _)| a < b) {
            wrong(&format!("an attempt was sent twice, or after a later one: {hits:?}"));
        }
        if hits.iter().any(|(number, _)| *number > job.number) {
            wrong("an attempt was sent that is not recorded");
        }
        if history.calm && job.is_final() && hits.len() != needed(job) {
            wrong("sent more or less often than the answers require");
        }
    }
    found
}

/// Returns the number of attempts that the path of the job's endpoint requires.
fn needed(job: &Job) -> usize {
    let Some((_, statuses)) = job.endpoint.split_once("/seq/") else { return 1 };
    let statuses = statuses.split('/').next().unwrap_or_default().split(',');
    let index = statuses.clone().position(|status| status == "200");
    index.map_or(job.most as usize, |index| (index + 1).min(job.most as usize))
}

/// I4: each job ends in time, counted from the end of the last fault.
pub fn all_jobs_end(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for job in &history.jobs {
        if !job.is_final() {
            found.push(violation("I4", format!("it does not end: {job:?}")));
            continue;
        }
        let (created_at, ended_at) = (history.lapse.at(job.created), history.lapse.at(job.updated));
        let faults = history.faults.iter().filter(|fault| fault.begun_at <= ended_at);
        let over_at = faults.map(|fault| fault.over_at).max().unwrap_or(created_at);
        let took = ended_at.saturating_sub(over_at.max(created_at));
        let is_held = job.endpoint.contains("/hang") || history.held_up.contains(&job.schedule);
        if !is_held && took > ends_within(history, job) {
            found.push(violation("I4", format!("it ends after {took} ms: {job:?}")));
        }
    }
    found
}

/// Returns the maximum time of a job in real milliseconds: its attempts and the waits between them
/// (RETRY-1), after those of the job that may hold it. A fault that delays ticks delays tickets by
/// the same time.
fn ends_within(history: &History, job: &Job) -> i64 {
    let waits = (1..job.most).map(|attempt| 1_000_i64 << attempt).sum::<i64>();
    let late = history.latest_ms.unwrap_or_default();
    ATTEMPTS_MS + 2 * history.lapse.real(waits) + late
}

/// I5: a final job does not change.
pub fn ends_are_final(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let now: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    for seen in history.seen.iter().filter(|job| job.is_final()) {
        let Some(job) = now.get(seen.id.as_str()) else {
            found.push(violation(
                "I5",
                format!("it was seen and does not exist any more: {seen:?}"),
            ));
            continue;
        };
        let later = Job { attempts: Vec::new(), ..(*job).clone() };
        if later != (Job { attempts: Vec::new(), ..seen.clone() }) {
            found.push(violation("I5", format!("final {seen:?} became {later:?}")));
        }
    }
    for job in history.jobs.iter().filter(|job| job.is_final()) {
        let Some(completed) = job.completed else {
            found.push(violation("I5", format!("it ended at no time: {job:?}")));
            continue;
        };
        let started = job.started.unwrap_or(completed);
        if !(job.tick <= started && started <= completed) {
            found.push(violation("I5", format!("its times are out of order: {job:?}")));
        }
    }
    found
}

/// I5: the times of attempts are consistent with each other and with the target.
pub fn attempts_take_their_time(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let apart = APART_MS * history.lapse.factor;
    for job in history.jobs.iter().filter(|job| job.is_final()) {
        let mut earliest = job.started.unwrap_or(job.tick);
        for attempt in &job.attempts {
            let mut wrong = |what: &str| found.push(violation("I5", format!("{what}: {job:?}")));
            let (Some(started), Some(completed)) = (attempt.started, attempt.completed) else {
                wrong("an attempt has no times");
                continue;
            };
            if started < earliest - apart || completed < started - apart {
                wrong("its attempts overlap");
            }
            earliest = completed;
            let took = history.lapse.real(completed - started) + TIMES_APART_MS;
            if attempt.duration.is_some_and(|duration| duration > took) {
                wrong("an exchange took longer than its attempt");
            }
            if attempt.status == Some(200) && attempt.duration < Some(slowness(job)) {
                wrong("an exchange was shorter than the target lets it be");
            }
        }
        if job.completed.is_some_and(|completed| completed < earliest - apart) {
            found.push(violation("I5", format!("it ended before its last attempt: {job:?}")));
        }
    }
    found
}

/// Returns the time in milliseconds that the target takes to respond.
fn slowness(job: &Job) -> i64 {
    let slow = job.endpoint.split_once("/slow/").map(|(_, rest)| rest);
    let slow = slow.and_then(|rest| rest.split('/').next()?.parse().ok());
    slow.unwrap_or_default()
}

/// I6: the store and the target agree.
pub fn store_and_target_agree(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let jobs: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    for hit in &history.hits {
        match jobs.get(hit.job.as_str()) {
            None => found.push(violation("I6", format!("a hit of no job: {hit:?}"))),
            Some(job) if !job.endpoint.ends_with(&hit.path) || job.body != hit.body => {
                found.push(violation("I6", format!("{hit:?} is not what {job:?} says")));
            }
            // In paths with a body, the last part equals the body, in all versions.
            Some(job) if !job.body.is_empty() && hit.path.rsplit('/').next() != Some(&job.body) => {
                found.push(violation("I6", format!("of two versions: {job:?}")));
            }
            Some(_) => {}
        }
    }
    for job in &history.jobs {
        let answered = |number| {
            let mut hits = history.hits_of(&job.id);
            hits.find(|hit| hit.attempt == number).and_then(|hit| hit.answered)
        };
        for attempt in job.attempts.iter().filter(|attempt| attempt.status.is_some()) {
            if attempt.status != answered(attempt.number) {
                let what = format!("attempt {} was answered otherwise: {job:?}", attempt.number);
                found.push(violation("I6", what));
            }
        }
        if job.status == "SUCCESS" && answered(job.number) != Some(200) {
            found.push(violation("I6", format!("a success without a hit: {job:?}")));
        }
    }
    found
}
