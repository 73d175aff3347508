//! Labels: closed enumerations, so that the number of series is known in advance.

use crate::domain::outcome::{ErrorCode, Outcome};
use crate::domain::plan::ChannelType;
use crate::domain::schedule::SkipReason;

/// A label with all its values.
pub trait Label: Copy + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The number of values.
    const COUNT: usize;

    /// Returns the index of this value, below `COUNT`.
    fn value_index(self) -> usize;

    /// Returns the text of the value at index `index`.
    fn text(index: usize) -> &'static str;
}

/// The labels of one metric: none, one or two.
pub trait LabelSet: Copy + Send + Sync + 'static {
    /// The number of series.
    const COUNT: usize;

    /// Returns the index of this series, below `COUNT`.
    fn index(self) -> usize;

    /// Returns the labels of the series at `index`.
    fn labels(index: usize) -> Vec<metrics::Label>;
}

impl LabelSet for () {
    const COUNT: usize = 1;

    fn index(self) -> usize {
        0
    }

    fn labels(_: usize) -> Vec<metrics::Label> {
        Vec::new()
    }
}

impl<A: Label> LabelSet for A {
    const COUNT: usize = <A as Label>::COUNT;

    fn index(self) -> usize {
        self.value_index()
    }

    fn labels(index: usize) -> Vec<metrics::Label> {
        vec![metrics::Label::from_static_parts(A::NAME, A::text(index))]
    }
}

impl<A: Label, B: Label> LabelSet for (A, B) {
    const COUNT: usize = A::COUNT * B::COUNT;

    fn index(self) -> usize {
        self.0.value_index() * B::COUNT + self.1.value_index()
    }

    fn labels(index: usize) -> Vec<metrics::Label> {
        vec![
            metrics::Label::from_static_parts(A::NAME, A::text(index / B::COUNT)),
            metrics::Label::from_static_parts(B::NAME, B::text(index % B::COUNT)),
        ]
    }
}

/// Declares an enumeration that is a label.
macro_rules! label {
    ($(#[$doc:meta])* $type:ident, $name:literal { $($(#[$item_doc:meta])* $item:ident = $text:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$item_doc])* $item,)*
        }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$item,)*];
        }

        impl Label for $type {
            const NAME: &'static str = $name;
            const COUNT: usize = Self::ALL.len();

            fn value_index(self) -> usize {
                self as usize
            }

            fn text(index: usize) -> &'static str {
                [$($text,)*][index]
            }
        }
    };
}

impl Label for SkipReason {
    const NAME: &'static str = "reason";
    const COUNT: usize = Self::ALL.len();

    fn value_index(self) -> usize {
        self as usize
    }

    fn text(index: usize) -> &'static str {
        Self::ALL[index].as_str()
    }
}

impl Label for ErrorCode {
    const NAME: &'static str = "code";
    const COUNT: usize = Self::ALL.len();

    fn value_index(self) -> usize {
        self as usize
    }

    fn text(index: usize) -> &'static str {
        Self::ALL[index].as_str()
    }
}

impl Label for ChannelType {
    const NAME: &'static str = "type";
    const COUNT: usize = Self::ALL.len();

    fn value_index(self) -> usize {
        self as usize
    }

    fn text(index: usize) -> &'static str {
        Self::ALL[index].as_str()
    }
}

label! {
    /// The result of planning an alert.
    AlertResult, "result" {
        /// It will be delivered.
        Planned = "planned",
        /// It is part of another alert: a digest or an incident.
        Merged = "merged",
        /// No channel can receive it.
        Undeliverable = "undeliverable",
    }
}

label! {
    /// The result of a try of a delivery.
    TryResult, "result" {
        /// The channel accepted the alert.
        Delivered = "delivered",
        /// The try failed, and another one follows.
        Retried = "retried",
        /// The try failed, and no other one follows.
        Failed = "failed",
    }
}

label! {
    /// A server without which ticks keep firing.
    Server, "server" {
        /// Redis.
        Queue = "queue",
        /// etcd.
        Cluster = "cluster",
    }
}

label! {
    /// The result of exporting a span.
    SpanResult, "result" {
        /// The collector accepted it.
        Exported = "exported",
        /// The export to the collector failed.
        Failed = "failed",
        /// It was dropped because the queue was full.
        Dropped = "dropped",
    }
}

label! {
    /// The outcome of an attempt.
    AttemptOutcome, "outcome" {
        /// The job succeeded.
        Success = "success",
        /// The attempt failed, and another attempt may succeed.
        Retryable = "retryable",
        /// The attempt failed, and another attempt cannot succeed.
        Final = "final",
    }
}

impl From<&Outcome> for AttemptOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Success,
            Outcome::Retryable(_) => Self::Retryable,
            Outcome::Final(_) => Self::Final,
        }
    }
}

label! {
    /// The final status of a job.
    FinalStatus, "status" {
        /// An attempt succeeded.
        Success = "SUCCESS",
        /// No attempt succeeded.
        Failed = "FAILED",
    }
}

label! {
    /// The kind of a store failure.
    StoreFault, "kind" {
        /// The store could not be reached.
        Unavailable = "unavailable",
        /// The store had no space left.
        Full = "full",
        /// The store refused this replica: user, password, permission, database or TLS.
        Refused = "refused",
        /// The store could not read its data.
        Corrupt = "corrupt",
        /// The version or setup of the store does not match.
        Incompatible = "incompatible",
        /// The store rejected a row.
        Rejected = "rejected",
        /// The adapter of the store has a bug.
        Internal = "internal",
    }
}

label! {
    /// The purpose of a pool of PostgreSQL connections.
    Pool, "pool" {
        /// API requests.
        Api = "api",
        /// Firing, rescuing jobs and alerts.
        Scheduler = "scheduler",
        /// Claiming jobs and committing outcomes.
        Executor = "executor",
    }
}

label! {
    /// The state of a call that uses a pool.
    CallState, "state" {
        /// It waits for a connection.
        Waiting = "waiting",
        /// It has a connection.
        Connected = "connected",
    }
}

label! {
    /// A background loop.
    Loop, "loop" {
        /// Fires ticks.
        Leader = "leader",
        /// Finds jobs that the queue lost.
        JobRescuer = "sweeper",
        /// Takes tickets and claims jobs.
        Executor = "executor",
        /// Commits outcomes.
        Committer = "committer",
        /// Renews claims.
        Renewer = "renewer",
        /// Relays events and claims deliveries.
        Notifier = "notifier",
        /// Prunes history and does other maintenance.
        Upkeep = "upkeep",
        /// Any other loop.
        Other = "other",
    }
}

label! {
    /// The class of the response to an attempt.
    ResponseClass, "class" {
        /// 100 to 299.
        Success = "2xx",
        /// 300 to 399.
        Redirect = "3xx",
        /// 400 to 499.
        ClientError = "4xx",
        /// 500 and more.
        ServerError = "5xx",
        /// There was no response.
        None = "none",
    }
}

impl ResponseClass {
    /// Returns the class of a status. `None` means that there was no response.
    pub fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::None,
            Some(0..=299) => Self::Success,
            Some(300..=399) => Self::Redirect,
            Some(400..=499) => Self::ClientError,
            Some(_) => Self::ServerError,
        }
    }
}

label! {
    /// A limit on concurrent attempts of an executor.
    Cap, "cap" {
        /// The total number of slots of the executor.
        Slots = "slots",
        /// The slots of one account.
        Account = "account",
        /// The slots to one host.
        Host = "host",
    }
}

label! {
    /// The result of a tick of the canary.
    CanaryResult, "result" {
        /// It ran when it was due.
        OnTime = "on_time",
        /// It ran too late.
        Late = "late",
        /// It did not run.
        Missed = "missed",
        /// It ran more than once.
        Doubled = "doubled",
    }
}

label! {
    /// The purpose of a certificate file.
    CertificateUse, "certificate" {
        /// A certificate that is trusted for requests to targets.
        Outbound = "outbound",
        /// A certificate that is trusted for the mail server.
        Mail = "mail",
        /// A certificate that is trusted for the queue.
        Queue = "queue",
        /// A certificate that is trusted for the cluster.
        Cluster = "cluster",
        /// A certificate that is trusted for the store, or presented to it.
        Store = "store",
    }
}

label! {
    /// The version of this binary.
    Version, "version" {
        /// The version that is running.
        Current = env!("CARGO_PKG_VERSION"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_its_own_series() {
        type Pair = (ChannelType, TryResult);
        let index = (ChannelType::Slack, TryResult::Failed).index();
        let labels = Pair::labels(index);
        assert_eq!((labels[0].key(), labels[0].value()), ("type", "slack"));
        assert_eq!((labels[1].key(), labels[1].value()), ("result", "failed"));
        let mut all: Vec<_> = (0..Pair::COUNT).map(Pair::labels).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Pair::COUNT);
    }
}
