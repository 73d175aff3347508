//! What a run leaves behind, as plain data: what users asked and were told, what the target was
//! sent, who wrote what, and how everything was found in the end. The oracles read nothing else.
//!
//! Two kinds of instants, both in milliseconds since 1970: the machine's (`*_at`, of what the test
//! saw) and those of the service (`tick`, `created` and so on), which a time-lapse may make run
//! faster.

use std::collections::BTreeSet;

use super::lapse::Lapse;

/// A run.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub lapse: Lapse,
    pub calls: Vec<Call>,
    pub hits: Vec<Hit>,
    /// Final jobs as they were seen on the way.
    pub seen: Vec<Job>,
    /// All jobs in the end.
    pub jobs: Vec<Job>,
    pub skips: Vec<Skip>,
    /// All schedules in the end.
    pub schedules: Vec<Schedule>,
    /// What leaders wrote, in its order.
    pub writes: Vec<Written>,
    /// When faults were at work, and what their end may still excuse.
    pub troubles: Vec<Trouble>,
    /// What replicas used before and after, of those that lived through it.
    pub uses: Vec<Use>,
    /// What a stranger was told.
    pub probes: Vec<Probe>,
    /// The schedules that tell how their jobs end, and since when.
    pub telling: Vec<String>,
    pub telling_since: i64,
    /// What they tell.
    pub alerts: Vec<Alert>,
    /// The events that have come to the receiver.
    pub received: BTreeSet<String>,
    /// The tick up to which everything must have come to its end.
    pub cut: i64,
    /// When the end was read, by the service's clock.
    pub read: i64,
    /// How late a tick may be fired, in real milliseconds, if it is known.
    pub latest_ms: Option<i64>,
    /// Schedules that may be later.
    pub held_up: Vec<String>,
    /// Whether no attempt was lost: then their numbers are those that the answers call for.
    pub calm: bool,
    /// Whether nothing happened at all: then jobs start at once.
    pub prompt: bool,
}

/// What is told of a job's end, as it is stored.
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
    pub what: What,
    pub begun_at: i64,
    pub ended_at: i64,
    pub answer: Answer,
    /// Which account has asked.
    pub account: usize,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Schedules that tick every so many minutes (0: never while a test runs), all or none.
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
    /// A change that lets it tick every so many minutes, and send this.
    Change {
        schedule: String,
        minutes: i64,
        body: String,
    },
    Delete {
        schedule: String,
    },
    /// A job that a trigger has promised, from whichever replica.
    Read {
        job: String,
    },
    /// Whatever else.
    Other,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done; the ids it tells.
    Done(Vec<String>),
    Refused {
        status: u16,
        code: String,
    },
    /// Nobody answered, or not in time.
    Lost,
}

/// A request that the target got.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    pub job: String,
    pub attempt: u32,
    pub path: String,
    pub body: String,
    pub at: i64,
    pub answered: Option<u16>,
}

/// A job, as the API shows it.
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
    /// Absent where it was seen in a list.
    pub attempts: Vec<Attempt>,
    /// Which account was shown it.
    pub account: usize,
}

impl Job {
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILED")
    }

    /// Whether a tick has made it.
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
    /// How long its exchange took, in real milliseconds.
    pub duration: Option<i64>,
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// Ticks that became no jobs.
#[derive(Clone, Debug, Default)]
pub struct Skip {
    pub schedule: String,
    pub first: i64,
    pub last: i64,
    pub count: i64,
    pub reason: String,
}

/// A schedule in the end.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    pub id: String,
    pub name: String,
    pub enabled: bool,
    pub next: Option<i64>,
    /// Which account was shown it.
    pub account: usize,
}

/// A write that takes a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A life of a replica has raised a shard's epoch.
    Epoch { shard: i32, epoch: i64, life: String },
    /// A life of a replica has made a job or a skip of ticks, while this was the shard's epoch.
    Fired { shard: i32, epoch: i64, life: String },
}

/// A time in which a fault was at work.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub begun_at: i64,
    /// Until what it did may be felt.
    pub over_at: i64,
}

/// What a replica used, before and after.
#[derive(Clone, Debug)]
pub struct Use {
    pub what: String,
    pub before: u64,
    pub after: u64,
    /// What it may be after.
    pub most: u64,
}

/// Two answers that must not differ: about an object of another account, and of nobody.
#[derive(Clone, Debug)]
pub struct Probe {
    pub what: String,
    pub of_other: (u16, String),
    pub of_nobody: (u16, String),
}

impl History {
    /// Whether what happened in this span may be due to a fault.
    pub fn is_troubled(&self, from_at: i64, to_at: i64) -> bool {
        self.troubles.iter().any(|trouble| from_at <= trouble.over_at && trouble.begun_at <= to_at)
    }

    /// The requests of a job.
    pub fn hits_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Hit> {
        self.hits.iter().filter(move |hit| hit.job == job)
    }
}
