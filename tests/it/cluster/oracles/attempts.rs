//! Jobs and attempts: bounded, numbered, ended for good, as the target saw them.

use std::collections::BTreeMap;

use super::super::history::{History, Job};
use super::{Violation, violation};

/// I3.
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
        let hits: Vec<_> = history.hits_of(&job.id).map(|hit| hit.attempt).collect();
        if !hits.is_sorted_by(|a, b| a < b) {
            wrong("an attempt was sent twice, or after a later one");
        }
        if hits.iter().any(|number| *number > job.number) {
            wrong("an attempt was sent that is not recorded");
        }
        if history.calm && job.is_final() && hits.len() != needed(job) {
            wrong("sent more or less often than the answers call for");
        }
    }
    found
}

/// How many attempts the path calls for that a job's requests go to.
fn needed(job: &Job) -> usize {
    let Some((_, statuses)) = job.endpoint.split_once("/seq/") else { return 1 };
    let statuses = statuses.split('/').next().unwrap_or_default().split(',');
    let place = statuses.clone().position(|status| status == "200");
    place.map_or(job.most as usize, |place| (place + 1).min(job.most as usize))
}

/// I4.
pub fn all_jobs_end(history: &History) -> Vec<Violation> {
    let stuck = history.jobs.iter().filter(|job| !job.is_final());
    stuck.map(|job| violation("I4", format!("it does not end: {job:?}"))).collect()
}

/// I5.
pub fn ends_are_final(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let now: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    for seen in history.seen.iter().filter(|job| job.is_final()) {
        let Some(job) = now.get(seen.id.as_str()) else {
            found.push(violation("I5", format!("it was seen and is gone: {seen:?}")));
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

/// I6.
pub fn store_and_target_agree(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let jobs: BTreeMap<_, _> = history.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    for hit in &history.hits {
        match jobs.get(hit.job.as_str()) {
            None => found.push(violation("I6", format!("a hit of no job: {hit:?}"))),
            Some(job) if !job.endpoint.ends_with(&hit.path) || job.body != hit.body => {
                found.push(violation("I6", format!("{hit:?} is not what {job:?} says")));
            }
            // The last part of a path is the body, in all versions of those that have one.
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
