//! The columns of the tables that are copied.

use super::form::Form::{self, Bytes, Id, Plain};

pub(super) const ACCOUNTS: &[(&str, Form)] = &[
    ("id", Id),
    ("name", Plain),
    ("created_at", Plain),
    ("plan", Plain),
    ("suspended_at", Plain),
    ("resumed_at", Plain),
    ("pruned_at", Plain),
];

pub(super) const ACCOUNT_MONTHS: &[(&str, Form)] =
    &[("account_id", Id), ("month", Plain), ("reserved", Plain), ("exhausted_at", Plain)];

pub(super) const API_KEYS: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("name", Plain),
    ("scope", Plain),
    ("digest", Bytes),
    ("created_at", Plain),
    ("created_by", Plain),
    ("life_ms", Plain),
    ("expires_at", Plain),
    ("revoked_at", Plain),
    ("last_used_at", Plain),
];

pub(super) const ATTEMPTS: &[(&str, Form)] = &[
    ("job_id", Id),
    ("number", Plain),
    ("started_at", Plain),
    ("completed_at", Plain),
    ("duration_ms", Plain),
    ("status_code", Plain),
    ("error_code", Plain),
    ("error_message", Plain),
    ("timings", Plain),
    ("response_truncated", Plain),
    ("response_headers", Plain),
    ("response", Plain),
];

pub(super) const SKIPS: &[(&str, Form)] = &[
    ("id", Plain),
    ("account_id", Id),
    ("schedule_id", Id),
    ("first_tick", Plain),
    ("last_tick", Plain),
    ("count", Plain),
    ("reason", Plain),
];

pub(super) const AUDIT_LOG: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("actor", Plain),
    ("action", Plain),
    ("object", Plain),
    ("origin", Plain),
];

pub(super) const SCHEDULES: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("version_id", Id),
    ("name", Plain),
    ("description", Plain),
    ("is_enabled", Plain),
    ("overlap_policy", Plain),
    ("catch_up_policy", Plain),
    ("revision", Plain),
    ("created_at", Plain),
    ("updated_at", Plain),
];

pub(super) const VERSIONS: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("schedule_id", Id),
    ("host_key", Plain),
    ("cron_expression", Plain),
    ("timezone", Plain),
    ("endpoint", Plain),
    ("http_method", Plain),
    ("body", Plain),
    ("headers", Plain),
    ("max_retries", Plain),
    ("timeout_seconds", Plain),
    ("expected_status_codes", Plain),
    ("sign_requests", Plain),
    ("created_at", Plain),
    ("retired_at", Plain),
];

/// With what the store of a cluster keeps beside the state: of the schedule and its version.
pub(super) const STATES: &[(&str, Form)] = &[
    ("schedule_id", Id),
    ("account_id", Id),
    ("version_id", Id),
    ("host_key", Plain),
    ("max_attempts", Plain),
    ("overlap_policy", Plain),
    ("next_tick", Plain),
    ("last_run_at", Plain),
    ("last_job_status", Plain),
    ("consecutive_failures", Plain),
    ("active_job_id", Id),
    ("held_job_id", Id),
    ("alert_on", Plain),
    ("alert_threshold", Plain),
    ("alert_repeat_minutes", Plain),
    ("alerted_at", Plain),
    ("fired_up_to", Plain),
];

pub(super) const EXECUTORS: &[(&str, Form)] = &[("id", Id), ("alive_until", Plain)];

pub(super) const RUNS: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("schedule_id", Id),
    ("version_id", Id),
    ("status", Plain),
    ("trigger", Plain),
    ("attempt_number", Plain),
    ("max_attempts", Plain),
    ("wake_at", Plain),
    ("claimed_by", Id),
    ("stop", Plain),
    ("created_at", Plain),
    ("updated_at", Plain),
    ("started_at", Plain),
    ("attempt_started_at", Plain),
];

pub(super) const JOBS: &[(&str, Form)] = &[
    ("id", Id),
    ("account_id", Id),
    ("schedule_id", Id),
    ("version_id", Id),
    ("status", Plain),
    ("trigger", Plain),
    ("attempt_number", Plain),
    ("max_attempts", Plain),
    ("created_at", Plain),
    ("updated_at", Plain),
    ("started_at", Plain),
    ("completed_at", Plain),
    ("attempt_started_at", Plain),
    ("duration_ms", Plain),
    ("timings", Plain),
    ("status_code", Plain),
    ("error_code", Plain),
    ("error_message", Plain),
    ("response_truncated", Plain),
    ("response_headers", Plain),
    ("response", Plain),
];

pub(super) const DELETED_ACCOUNTS: &[(&str, Form)] = &[
    ("id", Id),
    ("name", Plain),
    ("deleted_at", Plain),
    ("actor", Plain),
    ("origin", Plain),
    ("gone_at", Plain),
];
