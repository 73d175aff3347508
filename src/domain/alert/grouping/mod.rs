//! Groups alerts into incidents and digests.
//!
//! # The danger
//! A host that is down makes every schedule against it fail. 200 schedules would send 200 alerts to
//! one channel, and 200 more when the host is back. The one alert that matters would be lost among
//! them.
//!
//! # The rule
//! If enough schedules fail against one host, a channel gets one alert about that host:
//! - `Gathering`: failures are held until no other failure has arrived for
//!   [`GroupingRules::gather`], at most for [`GroupingRules::gather_most`].
//! - If at least `incident_schedules` schedules are failing at that point, the incident becomes
//!   `Open`: one alert states their number, and all held and later alerts are merged into it.
//!   Otherwise the held alerts are sent one by one, and the host is in stage `Watching`: its
//!   failing schedules still count when the next one fails.
//! - An open incident is closed, with one alert, in one of three cases: all its schedules have
//!   recovered; some have, and nothing has failed for [`GroupingRules::calm`]; or so many have that
//!   fewer than `incident_schedules` fail, and none has recovered for that long.
//! - An incident ends without an alert after [`GroupingRules::stale`] without a failure, or after
//!   [`GroupingRules::longest`] in all. The next failure then starts a new one.
//!
//! A channel gets at most `per_minute` alerts in a minute. All others of that minute are merged
//! into one digest, which is sent at the minute's end.
//!
//! Everything here is pure: the store reads the state of channels and incidents, locks it, lets
//! this module decide and writes the result.

use std::time::Duration;

use super::AlertKind;
use crate::domain::Timestamp;

/// The minute of [`GroupingRules::per_minute`].
const WINDOW: Duration = Duration::from_secs(60);

/// The operator's settings for grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupingRules {
    /// The maximum number of alerts that a channel gets in a minute before the rest becomes a
    /// digest; 0 is no limit.
    pub per_minute: u32,
    /// The number of schedules that must fail against a host to make an incident; 0 disables
    /// incidents.
    pub incident_schedules: u32,
    /// The time for which a failure waits for others against the same host.
    pub gather: Duration,
    /// The maximum time for which it waits while others arrive.
    pub gather_most: Duration,
    /// The time without failures after which an incident is closed although some of its schedules
    /// have not run again.
    pub calm: Duration,
    /// The time without a failure after which an incident is forgotten.
    pub stale: Duration,
    /// The maximum duration of an incident. The next failure after it starts a new one.
    pub longest: Duration,
}

impl Default for GroupingRules {
    fn default() -> Self {
        Self {
            per_minute: 30,
            incident_schedules: 5,
            gather: Duration::from_millis(500),
            gather_most: Duration::from_secs(5),
            calm: Duration::from_secs(120),
            stale: Duration::from_secs(3_600),
            longest: Duration::from_secs(24 * 3_600),
        }
    }
}

/// The alerts that a channel has been sent in the current minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFlow {
    /// The start of the minute.
    pub window_began: Timestamp,
    /// The number of alerts sent in it.
    pub sent: u32,
    /// `true` if its digest has begun.
    pub has_digest: bool,
}

/// The destination of an alert: the channel or its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertFlow {
    /// Send it to the channel now.
    Send,
    /// Begin the digest of this minute with it.
    BeginDigest {
        /// The time at which the digest is sent.
        due: Timestamp,
    },
    /// Add it to the digest of this minute.
    JoinDigest,
}

impl ChannelFlow {
    /// Counts one more alert at `now` and returns its destination.
    pub fn take(&mut self, now: Timestamp, rules: &GroupingRules) -> AlertFlow {
        if rules.per_minute == 0 {
            return AlertFlow::Send;
        }
        // If the window starts in the future, a replica with a fast clock began it. It is still
        // used.
        if now >= self.window_began.plus(WINDOW) {
            *self = Self { window_began: now, sent: 0, has_digest: false };
        }
        if self.sent < rules.per_minute {
            self.sent += 1;
            return AlertFlow::Send;
        }
        if self.has_digest {
            return AlertFlow::JoinDigest;
        }
        self.has_digest = true;
        AlertFlow::BeginDigest { due: self.window_began.plus(WINDOW) }
    }
}

/// The stage of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentStage {
    /// Alerts are held until their number is clear.
    Gathering,
    /// Too few schedules fail; each gets its own alert.
    Watching,
    /// The alert about the incident was raised; all later alerts are merged into it.
    Open,
}

/// A host that schedules fail against, from the view of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncidentState {
    /// The current stage.
    pub stage: IncidentStage,
    /// In stage `Gathering`: the latest time at which it ends.
    pub gather_until: Timestamp,
    /// The time of the next check.
    pub due_at: Timestamp,
    /// The time of the first failure.
    pub since: Timestamp,
    /// The time at which the incident was opened.
    pub opened_at: Option<Timestamp>,
    /// The time of the last failure.
    pub last_failure_at: Timestamp,
    /// The time of the last recovery.
    pub last_recovery_at: Option<Timestamp>,
    /// The number of schedules that have failed.
    pub schedules: u32,
    /// The number of those that have not recovered since.
    pub failing: u32,
    /// The number of schedules that began to fail in stage `Gathering`.
    pub gathered: u32,
    /// The number of jobs that have failed.
    pub failures: u32,
}

/// The state of an event's schedule within the incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentMember {
    /// It has not failed in this incident.
    New,
    /// It is failing.
    Failing,
    /// It has failed and recovered.
    Recovered,
}

/// The decision about an alert that concerns a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupingVerdict {
    /// The alert is sent on its own, subject to the channel's flow.
    Alone,
    /// The alert is held until the incident is judged.
    Held,
    /// The alert is merged into the incident's alert.
    Merged,
}

/// The decision about an incident after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The incident stays as it is.
    Goes,
    /// The incident opens with an alert; held alerts are merged into it.
    Open,
    /// The incident is too small for its own alert: the held alerts are sent one by one.
    Release,
    /// The incident is over, and an alert says so.
    Close,
    /// The incident is over, without an alert.
    Forget,
}

impl IncidentState {
    /// Returns the state of a host against which nothing has failed yet.
    pub fn new(at: Timestamp) -> Self {
        Self {
            stage: IncidentStage::Watching,
            gather_until: at,
            due_at: at,
            since: at,
            opened_at: None,
            last_failure_at: at,
            last_recovery_at: None,
            schedules: 0,
            failing: 0,
            gathered: 0,
            failures: 0,
        }
    }

    /// Records that a job of a schedule failed at `at`; `now` is the time of processing.
    pub fn failed(
        &mut self,
        member: IncidentMember,
        at: Timestamp,
        now: Timestamp,
        rules: &GroupingRules,
    ) -> GroupingVerdict {
        self.failures = self.failures.saturating_add(1);
        self.last_failure_at = self.last_failure_at.max(at);
        if member == IncidentMember::New {
            self.schedules += 1;
        }
        if self.stage == IncidentStage::Watching {
            self.stage = IncidentStage::Gathering;
            self.gather_until = now.plus(rules.gather_most);
            self.gathered = 0;
        }
        if member != IncidentMember::Failing {
            self.failing += 1;
            self.gathered += 1;
        }
        if self.stage == IncidentStage::Open {
            self.set_due(rules);
            return GroupingVerdict::Merged;
        }
        self.due_at = now.plus(rules.gather).min(self.gather_until);
        GroupingVerdict::Held
    }

    /// Records that a job of a failing schedule succeeded at `at`.
    pub fn recovered(&mut self, at: Timestamp, rules: &GroupingRules) -> GroupingVerdict {
        self.failing = self.failing.saturating_sub(1);
        self.last_recovery_at = self.last_recovery_at.max(Some(at));
        match self.stage {
            IncidentStage::Gathering => GroupingVerdict::Held,
            IncidentStage::Watching => {
                self.set_due(rules);
                GroupingVerdict::Alone
            }
            IncidentStage::Open => {
                self.set_due(rules);
                GroupingVerdict::Merged
            }
        }
    }

    /// Decides about the incident at `now`, after the events were recorded.
    pub fn judge(&mut self, now: Timestamp, rules: &GroupingRules) -> Judgement {
        match self.stage {
            IncidentStage::Gathering if now < self.due_at => Judgement::Goes,
            IncidentStage::Gathering => {
                let enough = self.failing.max(self.gathered) >= rules.incident_schedules;
                if enough && rules.incident_schedules > 0 {
                    (self.stage, self.opened_at) = (IncidentStage::Open, Some(now));
                    self.set_due(rules);
                    return Judgement::Open;
                }
                self.stage = IncidentStage::Watching;
                self.set_due(rules);
                Judgement::Release
            }
            IncidentStage::Watching if self.failing == 0 || self.is_stale(now, rules) => {
                Judgement::Forget
            }
            IncidentStage::Watching => Judgement::Goes,
            IncidentStage::Open if self.failing == 0 || self.is_calm(now, rules) => {
                Judgement::Close
            }
            IncidentStage::Open if self.is_stale(now, rules) => Judgement::Forget,
            IncidentStage::Open => {
                self.set_due(rules);
                Judgement::Goes
            }
        }
    }

    /// Returns `true` if a schedule has succeeded since the last failure.
    fn is_recovering(&self) -> bool {
        self.last_recovery_at.is_some_and(|at| at >= self.last_failure_at)
    }

    fn is_calm(&self, now: Timestamp, rules: &GroupingRules) -> bool {
        self.calm_at(rules).is_some_and(|at| now >= at)
    }

    /// Returns the time at which an open incident is calm if nothing happens before: no schedule
    /// fails any more, or too few fail to be an incident. In the second case the remaining
    /// schedules get their own alerts, instead of being hidden by the incident.
    fn calm_at(&self, rules: &GroupingRules) -> Option<Timestamp> {
        let recovered_at = self.last_recovery_at?;
        if self.failing < rules.incident_schedules {
            let quiet = self.is_recovering().then(|| self.last_failure_at.plus(rules.calm));
            let few = recovered_at.plus(rules.calm);
            return Some(quiet.map_or(few, |quiet| quiet.min(few)));
        }
        self.is_recovering().then(|| self.last_failure_at.plus(rules.calm))
    }

    fn is_stale(&self, now: Timestamp, rules: &GroupingRules) -> bool {
        now >= self.stale_at(rules)
    }

    fn stale_at(&self, rules: &GroupingRules) -> Timestamp {
        let quiet = self.last_failure_at.plus(rules.stale);
        self.opened_at.map_or(quiet, |at| quiet.min(at.plus(rules.longest)))
    }

    fn set_due(&mut self, rules: &GroupingRules) {
        let stale_at = self.stale_at(rules);
        self.due_at = match self.stage {
            IncidentStage::Open if self.failing == 0 => self.last_failure_at,
            IncidentStage::Open => {
                self.calm_at(rules).map_or(stale_at, |calm_at| stale_at.min(calm_at))
            }
            IncidentStage::Watching if self.failing == 0 => self.last_failure_at,
            _ => stale_at,
        };
    }
}

/// Returns `true` if events of this kind concern the host that failed.
pub fn concerns_host(kind: AlertKind) -> bool {
    matches!(kind, AlertKind::JobFailed | AlertKind::ScheduleRecovered)
}

#[cfg(test)]
mod tests;
