//! Decides which job results raise events, by the schedule's notification preference.

use super::AlertKind;
use crate::domain::Timestamp;
use crate::domain::plan::NotifyOn;

/// The maximum of `failureThreshold`.
pub const MAX_THRESHOLD: u32 = 1_000;
/// The maximum of `repeatEveryMinutes`: a week.
pub const MAX_REPEAT_MINUTES: u32 = 10_080;

/// A schedule's notification preference, without its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertPolicy {
    /// The outcomes that raise events.
    pub notify_on: NotifyOn,
    /// The number of failures in a row before the first alert; 1 alerts on each failure.
    pub failure_threshold: u32,
    /// `true` if a recovery raises an alert, provided that the failure did.
    pub notify_on_recovery: bool,
    /// The minimum time between alerts while a schedule keeps failing, in minutes; absent: each
    /// failure raises an alert.
    pub repeat_every_minutes: Option<u32>,
}

impl Default for AlertPolicy {
    fn default() -> Self {
        Self {
            notify_on: NotifyOn::None,
            failure_threshold: 1,
            notify_on_recovery: false,
            repeat_every_minutes: None,
        }
    }
}

/// The result of a job, as far as alerts are concerned. Cancelled jobs raise nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// SUCCESS.
    Succeeded,
    /// FAILED.
    Failed,
}

/// The history of a schedule at the time when one of its jobs ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streak {
    /// The number of failures in a row before this job.
    pub failures: u32,
    /// The time of the last alert that a failure of this streak raised.
    pub told_at: Option<Timestamp>,
}

/// An event that the end of a job raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisedEvent {
    /// The kind of event.
    pub kind: AlertKind,
    /// The number of failures in a row: including this one, or before the recovery.
    pub failures: u32,
    /// `true` if channels are alerted. If `false`, the event only serves to close incidents.
    pub wanted: bool,
}

impl AlertPolicy {
    fn wants(self, end: JobEnd) -> bool {
        match end {
            JobEnd::Failed => matches!(self.notify_on, NotifyOn::Failure | NotifyOn::Both),
            JobEnd::Succeeded => matches!(self.notify_on, NotifyOn::Success | NotifyOn::Both),
        }
    }

    /// Returns the events of a job that ends at `at`, and the streak after it.
    pub fn judge(self, streak: Streak, end: JobEnd, at: Timestamp) -> (Vec<RaisedEvent>, Streak) {
        // A replica of an earlier release ends a streak without resetting `told_at`.
        let told_at = streak.told_at.filter(|_| streak.failures > 0);
        match end {
            JobEnd::Failed => {
                let failures = streak.failures.saturating_add(1);
                let told = self.wants(end) && self.tells_failure(failures, told_at, at);
                let raised = RaisedEvent { kind: AlertKind::JobFailed, failures, wanted: true };
                let told_at = if told { Some(at) } else { told_at };
                (told.then_some(raised).into_iter().collect(), Streak { failures, told_at })
            }
            JobEnd::Succeeded => {
                let was_told = told_at.is_some();
                let recovered = was_told.then_some(RaisedEvent {
                    kind: AlertKind::ScheduleRecovered,
                    failures: streak.failures,
                    wanted: self.notify_on_recovery,
                });
                // One message for one job: a recovery alert implies the success.
                let is_told = was_told && self.notify_on_recovery;
                let succeeded = (self.wants(end) && !is_told).then_some(RaisedEvent {
                    kind: AlertKind::JobSucceeded,
                    failures: 0,
                    wanted: true,
                });
                (recovered.into_iter().chain(succeeded).collect(), Streak::default())
            }
        }
    }

    fn tells_failure(self, failures: u32, told_at: Option<Timestamp>, at: Timestamp) -> bool {
        if failures < self.failure_threshold {
            return false;
        }
        match (told_at, self.repeat_every_minutes) {
            (Some(told_at), Some(minutes)) => {
                at.since(told_at).as_millis() >= u128::from(minutes) * 60_000
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    /// Returns the events of jobs that end a minute apart: `F` failed, `S` succeeded.
    fn told(policy: AlertPolicy, ends: &str) -> Vec<String> {
        let mut streak = Streak::default();
        let mut told = Vec::new();
        for (minute, end) in (1..).zip(ends.chars()) {
            let at = Timestamp::from_millis(minute * MINUTE_MS);
            let end = if end == 'F' { JobEnd::Failed } else { JobEnd::Succeeded };
            let (raised, after) = policy.judge(streak, end, at);
            streak = after;
            let text = |one: &RaisedEvent| {
                let mark = if one.wanted { "" } else { "?" };
                format!("{}{mark}{}", one.kind, one.failures)
            };
            told.push(raised.iter().map(text).collect::<Vec<_>>().join("+"));
        }
        told
    }

    fn on(notify_on: NotifyOn) -> AlertPolicy {
        AlertPolicy { notify_on, ..AlertPolicy::default() }
    }

    #[test]
    fn outcomes_that_are_not_wanted_raise_nothing() {
        assert_eq!(told(on(NotifyOn::None), "FS"), ["", ""]);
        assert_eq!(told(on(NotifyOn::Success), "FS"), ["", "job.succeeded0"]);
        assert_eq!(told(on(NotifyOn::Failure), "SF"), ["", "job.failed1"]);
    }

    #[test]
    fn each_failure_is_reported_unless_said_otherwise() {
        let told = told(on(NotifyOn::Failure), "FFSF");
        assert_eq!(told, ["job.failed1", "job.failed2", "schedule.recovered?2", "job.failed1"]);
    }

    #[test]
    fn the_threshold_counts_failures_in_a_row() {
        let policy = AlertPolicy { failure_threshold: 3, ..on(NotifyOn::Failure) };
        assert_eq!(
            told(policy, "FFSFFFF"),
            ["", "", "", "", "", "job.failed3", "job.failed4"],
            "two failures that were not told need no recovery"
        );
    }

    #[test]
    fn a_failure_that_continues_is_reported_again_after_the_interval() {
        let policy = AlertPolicy { repeat_every_minutes: Some(3), ..on(NotifyOn::Failure) };
        assert_eq!(
            told(policy, "FFFFFSF"),
            ["job.failed1", "", "", "job.failed4", "", "schedule.recovered?5", "job.failed1"]
        );
    }

    #[test]
    fn alerts_about_failures_that_are_over_do_not_count() {
        let policy = AlertPolicy { repeat_every_minutes: Some(3), ..on(NotifyOn::Failure) };
        let told_at = Some(Timestamp::from_millis(0));
        let over = Streak { failures: 0, told_at };
        let at = Timestamp::from_millis(MINUTE_MS);
        let (raised, after) = policy.judge(over, JobEnd::Failed, at);
        assert_eq!((raised.len(), after), (1, Streak { failures: 1, told_at: Some(at) }));
        let (raised, after) = policy.judge(over, JobEnd::Succeeded, at);
        assert_eq!((raised.len(), after), (0, Streak::default()), "there is nothing to recover");
    }

    #[test]
    fn a_recovery_is_reported_only_if_the_failure_was_and_then_is_the_one_message() {
        let policy =
            AlertPolicy { failure_threshold: 2, notify_on_recovery: true, ..on(NotifyOn::Both) };
        assert_eq!(
            told(policy, "FSFFS"),
            ["", "job.succeeded0", "", "job.failed2", "schedule.recovered2"]
        );
    }
}
