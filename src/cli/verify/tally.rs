//! The results of the ticks.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::listening::RequestListener;
use crate::domain::Timestamp;

/// The delay beyond which a start counts as late.
const LATE: Duration = Duration::from_secs(1);

/// The state of a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TickState {
    /// There is no job, or it has not ended; it may still do so.
    Unfinished,
    /// There is one job, and it has ended.
    Ended {
        /// The id of the job.
        job: String,
        /// The start of its first attempt.
        started: Option<Timestamp>,
        /// `true` if the job succeeded.
        succeeded: bool,
    },
    /// There are several jobs.
    Several,
}

impl TickState {
    /// Derives the state of a tick from the list of its jobs.
    pub(super) fn of(jobs: &[Value]) -> Self {
        let ended = |job: &Value| matches!(job["status"].as_str(), Some("SUCCESS" | "FAILED"));
        match jobs {
            [job] if ended(job) => Self::Ended {
                job: job["id"].as_str().unwrap_or_default().to_owned(),
                started: job["startedAtUtc"].as_str().and_then(|text| text.parse().ok()),
                succeeded: job["status"] == "SUCCESS",
            },
            [] | [_] => Self::Unfinished,
            _ => Self::Several,
        }
    }
}

/// The results of all ticks.
#[derive(Debug, Default)]
pub(super) struct TickTally {
    ticks: u32,
    late: u32,
    failed: u32,
    missed: u32,
    doubled: u32,
    longest: Duration,
    /// The jobs that were started.
    jobs: Vec<String>,
    /// The number of requests that arrived, if this command was the target.
    received: Option<u32>,
}

impl TickTally {
    /// Adds the result of a tick.
    pub(super) fn add(&mut self, tick: Timestamp, seen: TickState) {
        self.ticks += 1;
        match seen {
            TickState::Unfinished => self.missed += 1,
            TickState::Several => self.doubled += 1,
            TickState::Ended { job, started, succeeded } => {
                let lag = started.map_or(Duration::ZERO, |started| started.since(tick));
                self.longest = self.longest.max(lag);
                self.late += u32::from(lag > LATE);
                self.failed += u32::from(!succeeded);
                // A job without an attempt was not run, so no request is expected for it.
                match started {
                    Some(_) => self.jobs.push(job),
                    None => self.missed += 1,
                }
            }
        }
    }

    /// Compares the jobs that the service reported with the requests that arrived.
    pub(super) fn compare(&mut self, listening: &RequestListener) {
        let mut received = 0;
        for job in &self.jobs {
            let (count, is_doubled) = listening.of(job);
            received += count;
            self.missed += u32::from(count == 0);
            self.doubled += u32::from(is_doubled);
        }
        self.received = Some(received);
    }

    /// Returns `true` if every tick ran exactly once.
    pub(super) fn is_kept(&self) -> bool {
        self.ticks > 0 && self.missed == 0 && self.doubled == 0
    }
}

impl fmt::Display for TickTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ticks, late, failed, missed, doubled, longest, received, .. } = self;
        let longest = longest.as_millis();
        writeln!(
            f,
            "{ticks} ticks: {missed} missed, {doubled} doubled, {late} over a second late"
        )?;
        writeln!(f, "{failed} jobs failed; the longest start lag was {longest} ms")?;
        match received {
            Some(received) => writeln!(f, "this command received {received} requests"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    #[test]
    fn a_miss_or_a_double_is_no_success() {
        let tick = at("2030-01-01T00:01:00Z");
        let job = |status| json!({"id": "job_1", "status": status, "startedAtUtc": "2030-01-01T00:01:02.5Z"});
        let mut fine = TickTally::default();
        fine.add(tick, TickState::of(&[job("SUCCESS")]));
        assert!(fine.is_kept());
        assert_eq!(
            fine.to_string(),
            "1 ticks: 0 missed, 0 doubled, 1 over a second late\n\
             0 jobs failed; the longest start lag was 2500 ms\n"
        );
        fine.compare(&RequestListener::default());
        assert!(!fine.is_kept(), "the service reports a job, and no request arrived");
        for wrong in [vec![], vec![job("PENDING")], vec![job("SUCCESS"), job("SUCCESS")]] {
            let mut tally = TickTally::default();
            tally.add(tick, TickState::of(&wrong));
            assert!(!tally.is_kept(), "{wrong:?}");
        }
        let unsent = json!({"id": "job_1", "status": "FAILED", "startedAtUtc": null});
        let mut tally = TickTally::default();
        tally.add(tick, TickState::of(&[unsent]));
        assert!(!tally.is_kept());
        tally.compare(&RequestListener::default());
        assert!(tally.to_string().starts_with("1 ticks: 1 missed, 0 doubled"), "{tally}");
        assert!(!TickTally::default().is_kept(), "nothing was seen");
    }
}
