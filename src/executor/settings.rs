//! The settings of an executor.

use std::time::Duration;

use crate::domain::retry::RetryPolicy;

/// The maximum number of jobs in one claim, and of outcomes in one commit.
pub(super) const BATCH: usize = 500;

/// The limits of an executor, its claim time and its retry policy.
#[derive(Clone, Debug)]
pub struct ExecutorSettings {
    /// The maximum number of attempts under way.
    pub slots: usize,
    /// The maximum number of attempts under way of one account.
    pub per_account: usize,
    /// The maximum number of attempts under way to one host.
    pub per_host: usize,
    /// The time for which claims last unless the executor renews its lease.
    pub claim_time: Duration,
    /// The pauses before failed jobs are retried.
    pub retry: RetryPolicy,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        Self {
            slots: 1_024,
            per_account: 100,
            per_host: 50,
            claim_time: Duration::from_secs(30),
            retry: RetryPolicy::default(),
        }
    }
}
