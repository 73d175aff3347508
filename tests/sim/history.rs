//! The actions of users and the responses to them. The oracle checks a run against this record.

use std::collections::{BTreeMap, HashSet};

use punctual::domain::schedule::{CatchUpPolicy, OverlapPolicy, Schedule};
use punctual::domain::{JobId, ScheduleId, Timestamp};

use crate::calendar::Recurrence;

/// The state of a schedule that a user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub name: String,
    pub recurrence: Recurrence,
    pub is_enabled: bool,
    pub overlap: OverlapPolicy,
    pub catch_up: CatchUpPolicy,
    pub request: RequestWish,
}

/// The fields that make a new version, except for the recurrence. The path and the body carry the
/// same tag, so that the target detects a mix of two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestWish {
    pub tag: String,
    pub expected: Option<u16>,
    pub max_retries: u8,
    pub timeout_seconds: u16,
}

impl RequestWish {
    pub fn path(&self) -> String {
        let expected = self.expected.map_or("any".to_owned(), |code| code.to_string());
        format!("/{}/{expected}", self.tag)
    }

    /// Returns the fields as JSON of the API.
    fn json(&self, url: &str) -> serde_json::Value {
        serde_json::json!({
            "endpoint": url,
            "httpMethod": "POST",
            "body": self.tag,
            "maxRetries": self.max_retries,
            "timeoutSeconds": self.timeout_seconds,
            "expectedStatusCodes": self.expected.map(|code| code.to_string()),
        })
    }
}

impl Wish {
    /// Returns the whole schedule as JSON of the API. `url` is its endpoint.
    pub fn json(&self, url: &str) -> Vec<u8> {
        let mut json = self.request.json(url);
        json["name"] = self.name.as_str().into();
        json["cronExpression"] = self.recurrence.expression().into();
        json["timezone"] = self.recurrence.zone.name.into();
        json["isEnabled"] = self.is_enabled.into();
        json["overlapPolicy"] = self.overlap.as_str().into();
        json["catchUpPolicy"] = self.catch_up.as_str().into();
        json.to_string().into_bytes()
    }

    /// Returns `true` if the stored schedule has exactly this state.
    pub fn is(&self, stored: &Schedule) -> bool {
        let definition = &stored.definition;
        let request = &self.request;
        stored.name == self.name
            && definition.cron_expression == self.recurrence.expression()
            && definition.timezone == self.recurrence.zone.name
            && stored.is_enabled == self.is_enabled
            && stored.overlap_policy == self.overlap
            && stored.catch_up_policy == self.catch_up
            && definition.endpoint.ends_with(&request.path())
            && definition.body.as_deref() == Some(&request.tag)
            && definition.max_retries == request.max_retries
            && definition.timeout_seconds == request.timeout_seconds
            && definition.expected_status_codes == request.expected.map(|code| code.to_string())
    }
}

/// A span in which a schedule was enabled with one recurrence: after `from`, up to and including
/// `until`.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub recurrence: Recurrence,
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

/// A schedule as its user knows it.
#[derive(Clone, Debug)]
pub struct KnownSchedule {
    pub wish: Wish,
    pub windows: Vec<Window>,
    /// All policies that the schedule has had.
    pub overlaps: Vec<OverlapPolicy>,
    pub catch_ups: Vec<CatchUpPolicy>,
    /// The time of the response to its deletion, and its jobs at that time.
    pub deleted: Option<(Timestamp, HashSet<JobId>)>,
}

impl KnownSchedule {
    pub fn new(wish: Wish, now: Timestamp) -> Self {
        let window = Window { recurrence: wish.recurrence, from: now, until: None };
        Self {
            windows: if wish.is_enabled { vec![window] } else { Vec::new() },
            overlaps: vec![wish.overlap],
            catch_ups: vec![wish.catch_up],
            deleted: None,
            wish,
        }
    }

    /// Records a change that took effect.
    pub fn change(&mut self, wish: Wish, now: Timestamp) {
        let old = std::mem::replace(&mut self.wish, wish);
        if (old.recurrence, old.is_enabled) != (self.wish.recurrence, self.wish.is_enabled) {
            self.close(now);
            if self.wish.is_enabled {
                let recurrence = self.wish.recurrence;
                self.windows.push(Window { recurrence, from: now, until: None });
            }
        }
        self.overlaps.push(self.wish.overlap);
        self.catch_ups.push(self.wish.catch_up);
    }

    /// Records a deletion that took effect, and the jobs at that time.
    pub fn delete(&mut self, now: Timestamp, jobs: HashSet<JobId>) {
        self.close(now);
        self.deleted = Some((now, jobs));
    }

    fn close(&mut self, now: Timestamp) {
        for window in &mut self.windows {
            window.until.get_or_insert(now);
        }
    }

    /// Returns all ticks until `now`.
    pub fn ticks(&self, now: Timestamp) -> Vec<Timestamp> {
        let of =
            |window: &Window| window.recurrence.ticks(window.from, window.until.unwrap_or(now));
        self.windows.iter().flat_map(of).collect()
    }
}

/// The actions of users and the responses to them.
#[derive(Default)]
pub struct History {
    pub schedules: BTreeMap<ScheduleId, KnownSchedule>,
    /// The job ids that triggers and retries returned.
    pub promised: Vec<JobId>,
    /// The number of triggers and retries whose response was lost.
    pub unanswered: usize,
    /// The jobs that users cancelled or tried to cancel, with the time of the response, if one
    /// arrived.
    pub cancelled: BTreeMap<JobId, Option<Timestamp>>,
}

impl History {
    /// Returns the schedules that exist.
    pub fn alive(&self) -> Vec<ScheduleId> {
        let alive = self.schedules.iter().filter(|(_, known)| known.deleted.is_none());
        alive.map(|(id, _)| *id).collect()
    }
}
