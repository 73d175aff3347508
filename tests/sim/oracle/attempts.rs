//! Checks jobs and attempts: JOB-1 to JOB-3, and the agreement of the store with the target.

use std::time::Duration;

use punctual::domain::Timestamp;
use punctual::domain::job::{Attempt, JobStatus};
use punctual::domain::outcome::ErrorCode;

use super::Seen;
use crate::process::{CLAIM_TIME, RETRY};
use crate::target::{Answer, Hit, script};
use crate::world::World;

pub fn judge(world: &World, seen: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    broken.extend(numbers(seen));
    broken.extend(hits(seen));
    broken.extend(waits(world, seen));
    broken.extend(end(world, seen));
    broken.extend(stopped(world, seen));
    broken.extend(retried_final_result(seen));
    for attempt in &seen.attempts {
        broken.extend(agrees(world, seen, attempt));
    }
    let tell = |what| format!("{what}: {:?} {:#?} {:#?}", seen.job, seen.attempts, seen.hits);
    broken.into_iter().map(tell).collect()
}

/// JOB-1: attempts are numbered without gaps, their number is limited, and they run one after the
/// other.
fn numbers(seen: &Seen) -> Vec<&'static str> {
    let (job, attempts) = (&seen.job, &seen.attempts);
    let mut broken = Vec::new();
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.number).collect();
    if numbers != (1..=job.attempt_number).collect::<Vec<_>>() {
        broken.push("JOB-1: attempts are missing or too many");
    }
    if job.attempt_number > job.max_attempts {
        broken.push("JOB-1: more attempts than allowed");
    }
    if attempts.windows(2).any(|two| two[0].completed_at.is_none_or(|at| at > two[1].started_at)) {
        broken.push("JOB-1: two attempts at once");
    }
    broken
}

/// Each attempt reaches the target at most once, after it was recorded, and alone.
fn hits(seen: &Seen) -> Vec<&'static str> {
    let mut broken = Vec::new();
    let (job, hits) = (&seen.job, &seen.hits);
    if hits.windows(2).any(|two| two[0].attempt >= two[1].attempt) {
        broken.push("JOB-1: hits twice or out of order");
    }
    for hit in hits {
        let Some(attempt) = attempt(seen, hit.attempt) else {
            broken.push("JOB-1: a hit of an attempt that is not recorded");
            continue;
        };
        if hit.at < attempt.started_at || hit.at < job.scheduled_run_at {
            broken.push("TICK-3: a hit before its time");
        }
        if hit.scheduled_at != job.scheduled_run_at {
            broken.push("a hit states another time");
        }
        let path = format!("/{}/", hit.body);
        if !job.endpoint.ends_with(&hit.path) || !hit.path.starts_with(&path) {
            broken.push("a mix of versions");
        }
        if hit.beside.iter().any(|other| is_live(seen, *other, hit)) {
            broken.push("JOB-1: two attempts under way under live claims");
        }
    }
    broken
}

/// Returns `true` if an attempt that was still open at the target at the time of a hit had a claim
/// then.
fn is_live(seen: &Seen, open: u8, hit: &Hit) -> bool {
    let began = seen.hits.iter().find(|other| other.attempt == open).map(|other| other.at);
    let ended = attempt(seen, open).and_then(|attempt| attempt.completed_at);
    began.is_some_and(|began| hit.at.since(began) < CLAIM_TIME)
        && ended.is_none_or(|ended| ended > hit.at)
}

fn attempt(seen: &Seen, number: u8) -> Option<&Attempt> {
    seen.attempts.iter().find(|attempt| attempt.number == number)
}

/// The response in the store is the response of the target.
fn agrees(world: &World, seen: &Seen, attempt: &Attempt) -> Option<&'static str> {
    let answer = script(world.seed, seen.job.id, attempt.number);
    let was_sent = seen.hits.iter().any(|hit| hit.attempt == attempt.number);
    let agrees = match (attempt.status_code, attempt.error_code) {
        (Some(200), _) => matches!(answer, Answer::Status(200) | Answer::Slow(_)),
        (Some(429), _) => matches!(answer, Answer::TooMany(_)),
        (Some(status), _) => answer == Answer::Status(status),
        (None, Some(ErrorCode::Network)) => answer == Answer::Reset,
        // A clock jump, a crash or a user can cut off any attempt.
        (None, Some(ErrorCode::Timeout | ErrorCode::WorkerLost | ErrorCode::Cancelled)) => true,
        _ => false,
    };
    if !agrees {
        return Some("an attempt differs from the record of the target");
    }
    (attempt.status_code.is_some() && !was_sent).then_some("an answer to a request never sent")
}

/// An attempt never starts before the wait after the previous attempt is over.
fn waits(world: &World, seen: &Seen) -> Option<&'static str> {
    let too_soon = |two: &[Attempt]| {
        let Some(ended) = two[0].completed_at else { return true };
        let doubled = RETRY.base * 2_u32.pow(u32::from(two[0].number) - 1);
        let mut least = doubled.min(RETRY.cap) / 2;
        if let (Some(429), Answer::TooMany(seconds)) =
            (two[0].status_code, script(world.seed, seen.job.id, two[0].number))
        {
            least = least.max(Duration::from_secs(seconds));
        }
        two[1].started_at < ended.plus(least)
    };
    seen.attempts.windows(2).any(too_soon).then_some("a retry came too soon")
}

/// Only retryable results are retried.
fn retried_final_result(seen: &Seen) -> Option<&'static str> {
    let expected = expected(seen);
    let followed = seen.attempts.split_last().map_or(&[][..], |(_, followed)| followed);
    let is_final = |attempt: &Attempt| {
        attempt.status_code.is_some_and(|code| is_success(code, expected) || !is_retried(code))
    };
    followed.iter().any(is_final).then_some("an attempt after one that was final")
}

/// Returns the status that the schedule expects, from its endpoint.
fn expected(seen: &Seen) -> Option<u16> {
    seen.job.endpoint.rsplit('/').next().and_then(|code| code.parse().ok())
}

fn is_success(code: u16, expected: Option<u16>) -> bool {
    expected.map_or(code < 400, |expected| expected == code)
}

fn is_retried(code: u16) -> bool {
    code >= 500 || code == 408 || code == 429
}

/// A cancelled job and a job of a deleted schedule have no further attempt.
fn stopped(world: &World, seen: &Seen) -> Option<&'static str> {
    let history = &world.history;
    let cancelled = history.cancelled.get(&seen.job.id).copied().flatten();
    let deleted = history.schedules[&seen.job.schedule_id].deleted.as_ref().map(|(at, _)| *at);
    let is_after = |at: Timestamp| seen.attempts.iter().any(|attempt| attempt.started_at > at);
    [cancelled, deleted].into_iter().flatten().any(is_after).then_some("an attempt after the end")
}

/// JOB-3, and the result that follows from the last attempt.
fn end(world: &World, seen: &Seen) -> Option<&'static str> {
    let job = &seen.job;
    let known = &world.history.schedules[&job.schedule_id];
    let expected = expected(seen);
    let none_left = job.attempt_number == job.max_attempts;
    let fine = match (job.status, job.error_code, job.status_code) {
        (JobStatus::Success, None, Some(code)) => is_success(code, expected),
        (JobStatus::Failed, Some(ErrorCode::HttpStatus), Some(code)) => {
            !is_success(code, expected) && (!is_retried(code) || none_left)
        }
        (JobStatus::Failed, Some(ErrorCode::Cancelled), _) => {
            world.history.cancelled.contains_key(&job.id) || known.deleted.is_some()
        }
        (
            JobStatus::Failed,
            Some(ErrorCode::Network | ErrorCode::Timeout | ErrorCode::WorkerLost),
            None,
        ) => none_left,
        _ => false,
    };
    if job.completed_at.is_none() {
        return Some("JOB-3: never finished");
    }
    (!fine).then_some("an end that does not follow from the attempts")
}
