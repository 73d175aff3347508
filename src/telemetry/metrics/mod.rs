//! All metrics of the service in one table: constant, type, name, unit and help.
//!
//! A metric is used through its constant, such as `TICKS_FIRED.add(3)` or
//! `SKIPS.with(SkipReason::Overlap).add(1)`. Labels are closed enumerations, so the number of
//! series is fixed: no id, host, address or error text can create a series. After [`install`] all
//! series exist with the value 0. Without `install`, as in most tests, recording does nothing.

mod beats;
mod computed;
mod document;
mod exporter;
mod handles;
mod http;
mod labels;
mod operations;
mod process;

pub use self::http::{ENDPOINTS, HttpAnswer, HttpRoute};
pub use beats::LoopHeartbeat;
pub use computed::{Computed, Countdown, CountdownEnds, HighestValue, Peak};
pub use document::document;
pub use exporter::{Exporter, install};
pub use handles::{Counter, Gauge, Histogram, MetricDefinition};
pub use labels::{
    AlertResult, AttemptOutcome, CallState, CanaryResult, Cap, CertificateUse, FinalStatus, Label,
    LabelSet, Loop, Pool, ResponseClass, Server, SpanResult, StoreFault, TryResult, Version,
};
pub use operations::{ClusterOperation, QueueOperation, StoreOperation};

use crate::domain::outcome::ErrorCode;
use crate::domain::plan::ChannelType;
use crate::domain::schedule::SkipReason;

/// Buckets of durations in seconds, from one millisecond to the maximum timeout of a request.
const SECONDS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];
/// Buckets of the durations of calls to servers, in seconds. The last bound is the timeout of a
/// call.
const CALLS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets of batch sizes.
const COUNTS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0];

macro_rules! table {
    ($($metric:ident: $type:ident $(<$labels:ty>)? $([$buckets:ident])? = $name:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $metric: $type $(<$labels>)? =
                $type::new(MetricDefinition { name: $name, help: $help } $(, $buckets)?);
        )*

        /// Every metric of the table.
        static TABLE: &[&dyn handles::Metric] = &[$(&$metric,)*];
    };
}

table! {
    TICKS_FIRED: Counter = "punctual_ticks_fired_total", "Ticks that became a job.";
    TICKS_LATE: Counter = "punctual_ticks_late_total", "Ticks that became a job more than a second after their instant.";
    FIRING_LAG_SECONDS: Histogram[SECONDS] = "punctual_firing_lag_seconds", "Time from the instant of a tick to the commit of its job, including catch-up ticks, which are over a second late.";
    SKIPS: Counter<SkipReason> = "punctual_skips_total", "Ticks that became no job, by reason.";
    QUOTAS_EXHAUSTED: Counter = "punctual_quotas_exhausted_total", "Accounts that used up their jobs of a month, counted once for each month.";
    FIRE_BATCH_SIZE: Histogram[COUNTS] = "punctual_fire_batch_size", "Ticks fired by one statement.";
    FIRE_BATCH_SECONDS: Histogram[SECONDS] = "punctual_fire_batch_seconds", "Duration of one firing statement.";
    LEADER_SHARDS: Gauge = "punctual_leader_shards", "Shards this replica leads.";
    SHARDS: Gauge = "punctual_shards", "The number of shards, led or not.";
    ELECTIONS: Counter = "punctual_elections_total", "Times that this replica began to lead a shard.";
    HIGHEST_EPOCH: Peak = "punctual_highest_epoch", "Highest epoch by which this replica has led a shard.";

    TICKETS_CLAIMED: Counter = "punctual_tickets_claimed_total", "Jobs claimed after their creation, by ticket or by the replica that received the API call; all other jobs are claimed when they fire.";
    RESCUED_TICKETS: Counter = "punctual_sweep_tickets_total", "Tickets pushed again because the queue had none for a late job.";
    TICKETS_DROPPED: Counter = "punctual_tickets_dropped_total", "Tickets that a full run queue rejected; the job rescuer pushes them again.";
    QUEUE_TICKETS: Gauge = "punctual_queue_tickets", "Jobs that could start and wait for an executor, in the whole store, counted to 10,000.";
    OLDEST_TICKET_SECONDS: Gauge = "punctual_oldest_ticket_seconds", "Time for which the oldest of these jobs could have started, in the whole store.";

    START_LAG_SECONDS: Histogram[SECONDS] = "punctual_start_lag_seconds", "Time from the instant a job was scheduled for to the start of sending its first attempt, including catch-up ticks, without jobs that waited for another job of their schedule.";
    ATTEMPTS: Counter<AttemptOutcome> = "punctual_attempts_total", "Attempts that ended, by outcome.";
    ATTEMPT_SECONDS: Histogram[SECONDS] = "punctual_attempt_seconds", "Duration of one attempt, to the last byte of its response.";
    ATTEMPTS_RUNNING: Gauge = "punctual_attempts_running", "Attempts under way.";
    EXECUTOR_SLOTS: Gauge = "punctual_executor_slots", "The maximum number of concurrent attempts.";
    CAPS_REACHED: Counter<Cap> = "punctual_caps_reached_total", "Times that the last slot of an executor, an account or a host was taken.";
    RESPONSES: Counter<ResponseClass> = "punctual_responses_total", "Responses to attempts, by class of status; none if the target did not answer.";
    RETRIES: Counter = "punctual_retries_total", "Retries scheduled after a failed attempt.";
    JOBS_FINISHED: Counter<FinalStatus> = "punctual_jobs_finished_total", "Jobs that ended, by status.";
    JOBS_FAILED: Counter<ErrorCode> = "punctual_jobs_failed_total", "Jobs that failed for good, by error code.";
    CLAIMS_LOST: Counter = "punctual_claims_lost_total", "Outcomes that could not be committed because the claim had passed to another.";
    WORKERS_LOST: Counter = "punctual_workers_lost_total", "Attempts closed because their claim expired, or was orphaned by its executor.";
    COMMIT_BATCH_SIZE: Histogram[COUNTS] = "punctual_commit_batch_size", "Outcomes committed by one transaction.";
    COMMIT_BATCH_SECONDS: Histogram[SECONDS] = "punctual_commit_batch_seconds", "Duration of one commit of outcomes.";

    EVENTS_RAISED: Counter = "punctual_events_raised_total", "Events raised at the end of jobs, according to notification preferences.";
    EVENTS_RELAYED: Counter = "punctual_events_relayed_total", "Events that were turned into alerts.";
    ALERTS: Counter<AlertResult> = "punctual_alerts_total", "Alerts, one for each event and channel, by the result of their planning.";
    INCIDENTS_OPENED: Counter = "punctual_incidents_opened_total", "Incidents: hosts against which so many schedules failed that one alert reports all of them.";
    DELIVERY_TRIES: Counter<(ChannelType, TryResult)> = "punctual_delivery_tries_total", "Tries to deliver an alert, by type of channel and result.";
    DELIVERY_LAG_SECONDS: Histogram[SECONDS] = "punctual_delivery_lag_seconds", "From an event to the end of the try that delivered it.";
    DELIVERIES_WAITING: Gauge = "punctual_deliveries_waiting", "Deliveries that wait for a try or are being tried, in the whole store.";
    OLDEST_ALERT_SECONDS: Gauge = "punctual_oldest_alert_seconds", "Age of the oldest event or delivery that is due, in the whole store.";

    FIRINGS_PARKED: Counter = "punctual_firings_parked_total", "Due schedules that could not be fired and are retried later; the log names them and the reason.";
    FENCED_WRITES: Counter = "punctual_fenced_writes_total", "Writes refused because a newer leader exists.";
    STORE_ERRORS: Counter<StoreFault> = "punctual_store_errors_total", "Store operations that failed, by kind.";
    STORE_CALLS: Gauge<(Pool, CallState)> = "punctual_store_calls", "Calls to PostgreSQL that wait for a connection or have one, by pool; 0 with SQLite.";
    STORE_CALL_SECONDS: Histogram<StoreOperation>[CALLS] = "punctual_store_call_seconds", "Duration of a call to the store, by operation.";
    STORE_CALL_ERRORS: Counter<StoreOperation> = "punctual_store_call_errors_total", "Calls to the store that failed, by operation.";
    QUEUE_CALL_SECONDS: Histogram<QueueOperation>[CALLS] = "punctual_queue_call_seconds", "Duration of a call to the queue, by operation.";
    QUEUE_CALL_ERRORS: Counter<QueueOperation> = "punctual_queue_call_errors_total", "Calls to the queue that failed, by operation.";
    CLUSTER_CALL_SECONDS: Histogram<ClusterOperation>[CALLS] = "punctual_cluster_call_seconds", "Duration of a request to etcd, by operation.";
    CLUSTER_CALL_ERRORS: Counter<ClusterOperation> = "punctual_cluster_call_errors_total", "Requests to etcd that failed or were not answered in time, by operation.";
    LOOP_RUNS_FAILED: Counter<Loop> = "punctual_loop_runs_failed_total", "Runs of a background loop that failed and are retried.";
    LOOP_IDLE_SECONDS: Gauge<Loop> = "punctual_loop_idle_seconds", "Time since the last pass of a loop, minus the pause that the loop requested; of several loops of a kind, the longest.";
    HISTORY_DAYS_HELD: Gauge = "punctual_history_partitions_held", "Expired days of jobs that this replica could not drop at its last attempt: one of their jobs has not finished or ended late, or a reader holds a lock.";
    PARTITIONS_AHEAD_SECONDS: Countdown = "punctual_partitions_ahead_seconds", "Time for which partitions for jobs exist from now on; NaN without PostgreSQL.";
    DISK_FREE_BYTES: Gauge = "punctual_disk_free_bytes", "Free space on the disk of the embedded store's file; NaN with PostgreSQL.";
    CERTIFICATE_EXPIRY_SECONDS: Countdown<CertificateUse> = "punctual_certificate_expiry_seconds", "Time until the first certificate of a configured file expires, by purpose; NaN without a certificate.";

    HTTP_REQUESTS: Counter<HttpAnswer> = "punctual_http_requests_total", "API requests answered, by method, class of status and route.";
    HTTP_SECONDS: Histogram<HttpRoute>[SECONDS] = "punctual_http_seconds", "Time to answer an API request, by route.";
    RATE_LIMITED: Counter = "punctual_rate_limited_total", "API requests refused by a rate limit.";
    AUTH_FAILURES: Counter = "punctual_auth_failures_total", "API requests without a valid key.";
    CONNECTIONS_OPEN: Gauge = "punctual_connections_open", "Connections that clients have open.";
    ACCEPT_ERRORS: Counter = "punctual_accept_errors_total", "Connections that could not be accepted.";

    CANARY_TICKS: Counter<CanaryResult> = "punctual_canary_ticks_total", "Ticks of the canary's schedules, by result.";

    LOG_LINES_DROPPED: Counter = "punctual_log_lines_dropped_total", "Log lines dropped because the log was read too slowly.";
    DEGRADED: Gauge<Server> = "punctual_degraded", "1 while the replica works without an unavailable server, else 0.";
    TRACE_SPANS: Counter<SpanResult> = "punctual_trace_spans_total", "Spans of traces, by result.";
    BUILD_INFO: Gauge<Version> = "punctual_build_info", "Always 1; the label is the version.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_counters_end_with_total() {
        let mut names: Vec<_> = TABLE.iter().map(|metric| metric.definition().name).collect();
        let text = install().render();
        for metric in TABLE {
            let MetricDefinition { name, help } = metric.definition();
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
