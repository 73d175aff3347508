//! Alerts about finished jobs: ALERT-1.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Alert, History, Job};
use super::{Violation, violation};

/// The statuses of deliveries in the store.
pub(super) const CLAIMED: i16 = 1;
pub(super) const DELIVERED: i16 = 3;
pub(super) const FAILED: i16 = 4;
pub(super) const MERGED: i16 = 5;

/// I13: each job that ended by itself has one delivery, which is final. Each delivered alert was
/// received.
pub fn each_end_is_reported(history: &History) -> Vec<Violation> {
    let mut of_jobs: BTreeMap<&str, Vec<&Alert>> = BTreeMap::new();
    for alert in &history.alerts {
        of_jobs.entry(&alert.job).or_default().push(alert);
    }
    let alive: BTreeSet<&str> = history.schedules.iter().map(|one| one.id.as_str()).collect();
    let alerted = history.jobs.iter().filter(|job| history.alerting.contains(&job.schedule));
    let mut violations = Vec::new();
    for job in alerted {
        let alerts = of_jobs.remove(job.id.as_str()).unwrap_or_default();
        if let Some(what) = wrong(history, job, &alerts, alive.contains(job.schedule.as_str())) {
            violations.push(violation("I13", format!("{what}: {} {alerts:?}", job.id)));
        }
    }
    violations
}

fn wrong(history: &History, job: &Job, alerts: &[&Alert], is_alive: bool) -> Option<&'static str> {
    let is_cancelled = job.error.as_deref() == Some("CANCELLED");
    let is_certain = job.completed.is_some_and(|at| at > history.alerting_since) && is_alive;
    let kind = if job.status == "SUCCESS" { "job.succeeded" } else { "job.failed" };
    match alerts {
        [] if !is_cancelled && is_certain && job.is_final() => Some("an end without an alert"),
        [] => None,
        [_, _, ..] => Some("an end with two alerts"),
        [_] if is_cancelled => Some("a cancelled job with an alert"),
        [one] if one.kind != kind => Some("an alert about another end"),
        [one] => match one.status {
            DELIVERED if !history.received.contains(&one.event) => {
                Some("delivered, but never received")
            }
            MERGED if !one.is_merged => Some("merged into nothing"),
            FAILED if is_alive => Some("undeliverable, although the channel accepts all alerts"),
            DELIVERED | MERGED | FAILED => None,
            _ => Some("an alert that never becomes final"),
        },
    }
}
