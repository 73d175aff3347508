//! The record of a run as plain data: the calls of users and their results, the requests at the
//! target, the writes of leaders, and the final state. The oracles read nothing else.
//!
//! There are two kinds of instants, both in Unix milliseconds. The test's own use the clock of the
//! machine (`*_at`). Those of the service (`tick`, `created` and so on) use its own clock, which a
//! time lapse may speed up.

use std::collections::BTreeSet;

use super::lapse::Lapse;

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub lapse: Lapse,
    pub calls: Vec<Call>,
    pub hits: Vec<Hit>,
    /// Final jobs that were seen during the run.
    pub seen: Vec<Job>,
    /// All jobs at the end.
    pub jobs: Vec<Job>,
    pub skips: Vec<Skip>,
    /// All schedules at the end.
    pub schedules: Vec<Schedule>,
    /// The writes of leaders in order.
    pub writes: Vec<Written>,
    /// The times of faults, and of their possible effects.
    pub faults: Vec<FaultPeriod>,
    /// The resource usage of the replicas that lived through the run, before and after.
    pub resource_usage: Vec<ResourceUsage>,
    /// The responses to calls on objects of another account.
    pub probes: Vec<Probe>,
    /// The schedules that alert about the ends of their jobs, and the time since when they do.
    pub alerting: Vec<String>,
    pub alerting_since: i64,
    /// Their alerts.
    pub alerts: Vec<Alert>,
    /// The events that reached the receiver.
    pub received: BTreeSet<String>,
    /// The tick up to which all work must be finished.
    pub cut: i64,
    /// The time at which the end was read, on the service's clock.
    pub read: i64,
    /// The maximum lag of a tick, in real milliseconds, if known.
    pub latest_ms: Option<i64>,
    /// Schedules that may exceed it.
    pub held_up: Vec<String>,
    /// `true` if no attempt was lost. Then the responses determine the number of attempts.
    pub calm: bool,
    /// `true` if jobs have to start promptly: no fault delayed more than a few of them.
    pub prompt: bool,
    /// The number of tickets that job rescuers have pushed again, in the processes that run at the
    /// end.
    pub rescued: u64,
}

/// A stored alert about the end of a job.
#[derive(Clone, Debug, Default)]
pub struct Alert {
    pub job: String,
    pub event: String,
    pub kind: String,
    pub status: i16,
    pub is_merged: bool,
}

/// A call of the API.
#[derive(Clone, Debug)]
pub struct Call {
    pub operation: ApiOperation,
    pub begun_at: i64,
    pub ended_at: i64,
    pub answer: Answer,
    /// The account of the caller.
    pub account: usize,
}

/// The operation that a call requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiOperation {
    /// Creates schedules that tick every `minutes` minutes (0: never during a test), all or none.
    Create {
        names: Vec<String>,
        minutes: i64,
    },
    Trigger {
        schedule: String,
    },
    Switch {
        schedule: String,
        on: bool,
    },
    /// Changes a schedule to tick every `minutes` minutes and to send `body`.
    Change {
        schedule: String,
        minutes: i64,
        body: String,
    },
    Delete {
        schedule: String,
    },
    /// Reads a job that a trigger returned, at any replica.
    Read {
        job: String,
    },
    /// Any other call.
    Other,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call succeeded and returned these ids.
    Done(Vec<String>),
    Refused {
        status: u16,
        code: String,
    },
    /// No response arrived in time.
    Lost,
}

/// A request that arrived at the target.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    pub job: String,
    pub attempt: u32,
    pub path: String,
    pub body: String,
    pub at: i64,
    pub answered: Option<u16>,
}

/// A job in the API's representation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    pub schedule: String,
    pub status: String,
    pub trigger: String,
    pub tick: i64,
    pub created: i64,
    pub started: Option<i64>,
    pub completed: Option<i64>,
    pub updated: i64,
    pub number: u32,
    pub most: u32,
    pub error: Option<String>,
    pub endpoint: String,
    pub body: String,
    /// Empty if the job comes from a list.
    pub attempts: Vec<Attempt>,
    /// The account that read it.
    pub account: usize,
}

impl Job {
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILED")
    }

    /// Returns `true` if a tick made the job.
    pub fn is_of_tick(&self) -> bool {
        matches!(self.trigger.as_str(), "schedule" | "catch_up")
    }
}

/// An attempt of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    pub started: Option<i64>,
    pub completed: Option<i64>,
    /// The duration of its exchange, in real milliseconds.
    pub duration: Option<i64>,
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// Ticks that were skipped.
#[derive(Clone, Debug, Default)]
pub struct Skip {
    pub schedule: String,
    pub first: i64,
    pub last: i64,
    pub count: i64,
    pub reason: String,
}

/// A schedule at the end.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    pub id: String,
    pub name: String,
    pub enabled: bool,
    pub next: Option<i64>,
    /// The account that read it.
    pub account: usize,
}

/// A write that only a leader makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A replica process raised the epoch of a shard.
    Epoch { shard: i32, epoch: i64, life: String },
    /// A replica process created a job or a skip of ticks, and the shard had this epoch.
    Fired { shard: i32, epoch: i64, life: String },
}

/// The time of a fault.
#[derive(Clone, Debug)]
pub struct FaultPeriod {
    pub begun_at: i64,
    /// The end of its possible effects.
    pub over_at: i64,
}

/// The usage of a resource by a replica, before and after the run.
#[derive(Clone, Debug)]
pub struct ResourceUsage {
    pub what: String,
    pub before: u64,
    pub after: u64,
    /// The maximum for `after`.
    pub most: u64,
}

/// Two responses that must not differ: about an object of another account, and about an unknown
/// object.
#[derive(Clone, Debug)]
pub struct Probe {
    pub what: String,
    pub of_other: (u16, String),
    pub of_unknown: (u16, String),
}

impl History {
    /// Returns `true` if a fault may have affected this span.
    pub fn has_fault(&self, from_at: i64, to_at: i64) -> bool {
        self.faults.iter().any(|fault| from_at <= fault.over_at && fault.begun_at <= to_at)
    }

    /// Returns the requests of a job.
    pub fn hits_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Hit> {
        self.hits.iter().filter(move |hit| hit.job == job)
    }
}
