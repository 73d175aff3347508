//! Every metric there is, in one table: constant, type, name, unit and help.
//!
//! A metric is used through its constant, such as `TICKS_FIRED.add(3)` or
//! `SKIPS.with(SkipReason::Overlap).add(1)`. Labels are closed enumerations, so the number of
//! series is fixed: no id, host, address or error text can become one. All series exist from
//! [`install`] on, with the value 0. Without `install`, as in most tests, recording does nothing.

mod exporter;
mod handles;
mod labels;
mod process;

pub use exporter::{Exporter, install};
pub use handles::{Counter, Definition, Gauge, Histogram};
pub use labels::{
    AlertResult, AttemptOutcome, CallState, FinalStatus, Label, LabelSet, Loop, Pool,
    RequestMethod, StatusClass, StoreFault, TryResult, Version,
};

use crate::domain::plan::ChannelType;
use crate::domain::schedule::SkipReason;

/// Spans from one millisecond to the longest a request may take.
const SECONDS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];
/// Sizes of batches.
const COUNTS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0];

macro_rules! table {
    ($($metric:ident: $type:ident $(<$labels:ty>)? $([$buckets:ident])? = $name:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $metric: $type $(<$labels>)? =
                $type::new(Definition { name: $name, help: $help } $(, $buckets)?);
        )*

        /// Every metric of the table.
        static TABLE: &[&dyn handles::Metric] = &[$(&$metric,)*];
    };
}

table! {
    TICKS_FIRED: Counter = "punctual_ticks_fired_total", "Ticks that became a job.";
    SKIPS: Counter<SkipReason> = "punctual_skips_total", "Ticks that became no job, by reason.";
    QUOTAS_EXHAUSTED: Counter = "punctual_quotas_exhausted_total", "Accounts that used up the jobs of a month, once for each month.";
    FIRE_BATCH_SIZE: Histogram[COUNTS] = "punctual_fire_batch_size", "Ticks fired by one statement.";
    FIRE_BATCH_SECONDS: Histogram[SECONDS] = "punctual_fire_batch_seconds", "Time one firing statement took.";
    LEADER_SHARDS: Gauge = "punctual_leader_shards", "Shards this replica leads.";

    TICKETS_CLAIMED: Counter = "punctual_tickets_claimed_total", "Jobs claimed after they were made, by their tickets or beside the API; all others started in the moment in which they were fired.";
    SWEEP_TICKETS: Counter = "punctual_sweep_tickets_total", "Tickets pushed again because the queue had none for a late job.";

    START_LAG_SECONDS: Histogram[SECONDS] = "punctual_start_lag_seconds", "From the instant a job was scheduled for to the start of sending its first attempt.";
    ATTEMPTS: Counter<AttemptOutcome> = "punctual_attempts_total", "Attempts that ended, by outcome.";
    ATTEMPT_SECONDS: Histogram[SECONDS] = "punctual_attempt_seconds", "Time one attempt took, to the last byte of its response.";
    ATTEMPTS_RUNNING: Gauge = "punctual_attempts_running", "Attempts under way.";
    EXECUTOR_SLOTS: Gauge = "punctual_executor_slots", "Attempts that may be under way at once.";
    RETRIES: Counter = "punctual_retries_total", "Further attempts that were scheduled after one failed.";
    JOBS_FINISHED: Counter<FinalStatus> = "punctual_jobs_finished_total", "Jobs that ended, by status.";
    CLAIMS_LOST: Counter = "punctual_claims_lost_total", "Outcomes that could not be committed because the claim had passed to another.";
    WORKERS_LOST: Counter = "punctual_workers_lost_total", "Attempts closed because their claim expired.";
    COMMIT_BATCH_SIZE: Histogram[COUNTS] = "punctual_commit_batch_size", "Outcomes committed by one transaction.";
    COMMIT_BATCH_SECONDS: Histogram[SECONDS] = "punctual_commit_batch_seconds", "Time one commit of outcomes took.";

    EVENTS_RAISED: Counter = "punctual_events_raised_total", "Events that ends of jobs raised for notification preferences.";
    EVENTS_RELAYED: Counter = "punctual_events_relayed_total", "Events that were turned into alerts.";
    ALERTS: Counter<AlertResult> = "punctual_alerts_total", "Alerts, one for each event and channel, by what became of them when they were planned.";
    INCIDENTS_OPENED: Counter = "punctual_incidents_opened_total", "Hosts that so many schedules failed against that one alert tells of them.";
    DELIVERY_TRIES: Counter<(ChannelType, TryResult)> = "punctual_delivery_tries_total", "Tries to deliver an alert, by type of channel and result.";
    DELIVERY_LAG_SECONDS: Histogram[SECONDS] = "punctual_delivery_lag_seconds", "From an event to the end of the try that delivered it.";
    DELIVERIES_WAITING: Gauge = "punctual_deliveries_waiting", "Deliveries that wait for a try or are being tried, in the whole store.";
    OLDEST_ALERT_SECONDS: Gauge = "punctual_oldest_alert_seconds", "Age of the oldest event or delivery that is due, in the whole store.";

    FENCED_WRITES: Counter = "punctual_fenced_writes_total", "Writes refused because a newer leader exists.";
    STORE_ERRORS: Counter<StoreFault> = "punctual_store_errors_total", "Store operations that failed, by kind.";
    STORE_CALLS: Gauge<(Pool, CallState)> = "punctual_store_calls", "Calls to PostgreSQL that wait for a connection or have one, by pool.";
    LOOP_RUNS_FAILED: Counter<Loop> = "punctual_loop_runs_failed_total", "Runs of a background loop that failed and are tried again.";

    HTTP_REQUESTS: Counter<(RequestMethod, StatusClass)> = "punctual_http_requests_total", "API requests answered, by method and class of status.";
    HTTP_SECONDS: Histogram[SECONDS] = "punctual_http_seconds", "Time to answer an API request.";
    RATE_LIMITED: Counter = "punctual_rate_limited_total", "API requests refused by a rate limit.";
    AUTH_FAILURES: Counter = "punctual_auth_failures_total", "API requests without a valid key.";
    CONNECTIONS_OPEN: Gauge = "punctual_connections_open", "Connections that clients have open.";
    ACCEPT_ERRORS: Counter = "punctual_accept_errors_total", "Connections that could not be accepted.";

    LOG_LINES_DROPPED: Counter = "punctual_log_lines_dropped_total", "Log lines dropped because the log was read too slowly.";
    BUILD_INFO: Gauge<Version> = "punctual_build_info", "Always 1; the label is the version.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_they_count() {
        let mut names: Vec<_> = TABLE.iter().map(|metric| metric.definition().name).collect();
        let text = install().render();
        for metric in TABLE {
            let Definition { name, help } = metric.definition();
            assert!(name.starts_with("punctual_") && help.ends_with('.'), "{name}");
            let is_counter = text.contains(&format!("# TYPE {name} counter\n"));
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
