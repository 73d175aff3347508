//! Labels: closed enumerations, so that the number of series is known beforehand.

use crate::domain::outcome::{ErrorCode, Outcome};
use crate::domain::plan::ChannelType;
use crate::domain::schedule::SkipReason;

/// One label with all its values.
pub trait Label: Copy + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// How many values there are.
    const COUNT: usize;

    /// The place of this value, below `COUNT`.
    fn place(self) -> usize;

    /// The text of the value at `place`.
    fn text(place: usize) -> &'static str;
}

/// The labels of one metric: none, one or two.
pub trait LabelSet: Copy + Send + Sync + 'static {
    /// How many series that makes.
    const COUNT: usize;

    /// Which of the series this is.
    fn index(self) -> usize;

    /// The labels of the series at `index`.
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
        self.place()
    }

    fn labels(index: usize) -> Vec<metrics::Label> {
        vec![metrics::Label::from_static_parts(A::NAME, A::text(index))]
    }
}

impl<A: Label, B: Label> LabelSet for (A, B) {
    const COUNT: usize = A::COUNT * B::COUNT;

    fn index(self) -> usize {
        self.0.place() * B::COUNT + self.1.place()
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
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$item,)*];
        }

        impl Label for $type {
            const NAME: &'static str = $name;
            const COUNT: usize = Self::ALL.len();

            fn place(self) -> usize {
                self as usize
            }

            fn text(place: usize) -> &'static str {
                [$($text,)*][place]
            }
        }
    };
}

impl Label for SkipReason {
    const NAME: &'static str = "reason";
    const COUNT: usize = Self::ALL.len();

    fn place(self) -> usize {
        self as usize
    }

    fn text(place: usize) -> &'static str {
        Self::ALL[place].as_str()
    }
}

impl Label for ErrorCode {
    const NAME: &'static str = "code";
    const COUNT: usize = Self::ALL.len();

    fn place(self) -> usize {
        self as usize
    }

    fn text(place: usize) -> &'static str {
        Self::ALL[place].as_str()
    }
}

impl Label for ChannelType {
    const NAME: &'static str = "type";
    const COUNT: usize = Self::ALL.len();

    fn place(self) -> usize {
        self as usize
    }

    fn text(place: usize) -> &'static str {
        Self::ALL[place].as_str()
    }
}

label! {
    /// What became of an alert when it was planned.
    AlertResult, "result" {
        /// It is to be delivered.
        Planned = "planned",
        /// Another alert tells of it: a digest or that of an incident.
        Merged = "merged",
        /// No channel can take it.
        Undeliverable = "undeliverable",
    }
}

label! {
    /// How a try of a delivery ended.
    TryResult, "result" {
        /// The channel has taken the alert.
        Delivered = "delivered",
        /// It has not, and is tried again.
        Retried = "retried",
        /// It has not, and is not tried again.
        Failed = "failed",
    }
}

label! {
    /// A server that ticks go on without.
    Server, "server" {
        /// Redis.
        Queue = "queue",
        /// etcd.
        Cluster = "cluster",
    }
}

label! {
    /// What became of a span.
    SpanResult, "result" {
        /// The collector has taken it.
        Exported = "exported",
        /// The collector has not taken it.
        Failed = "failed",
        /// Too many waited.
        Dropped = "dropped",
    }
}

label! {
    /// What an attempt's exchange meant.
    AttemptOutcome, "outcome" {
        /// The job has succeeded.
        Success = "success",
        /// Worth another attempt.
        Retryable = "retryable",
        /// No attempt can help.
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
    /// How a job ended.
    FinalStatus, "status" {
        /// An attempt brought what was expected.
        Success = "SUCCESS",
        /// None did.
        Failed = "FAILED",
    }
}

label! {
    /// Of what kind a failure of the store was.
    StoreFault, "kind" {
        /// It could not be reached.
        Unavailable = "unavailable",
        /// It had no room.
        Full = "full",
        /// It refused this replica: user, password, right, database or TLS.
        Refused = "refused",
        /// It could not read its data.
        Corrupt = "corrupt",
        /// Its version or set-up does not fit.
        Incompatible = "incompatible",
        /// It refused a row.
        Rejected = "rejected",
        /// Its adapter has a fault.
        Internal = "internal",
    }
}

label! {
    /// For whom a pool of connections to PostgreSQL is.
    Pool, "pool" {
        /// Users.
        Api = "api",
        /// Firing, and what finds what the queue lost.
        Scheduler = "scheduler",
        /// Claims and their outcomes.
        Executor = "executor",
    }
}

label! {
    /// How far a call of a pool is.
    CallState, "state" {
        /// It waits for a connection.
        Waiting = "waiting",
        /// It has one.
        Connected = "connected",
    }
}

label! {
    /// A background loop.
    Loop, "loop" {
        /// Fires ticks.
        Leader = "leader",
        /// Finds what the queue lost.
        Sweeper = "sweeper",
        /// Takes tickets and claims jobs.
        Executor = "executor",
        /// Commits outcomes.
        Committer = "committer",
        /// Renews claims.
        Renewer = "renewer",
        /// Relays events and claims deliveries.
        Notifier = "notifier",
        /// Prunes and keeps things tidy.
        Upkeep = "upkeep",
        /// Any other.
        Other = "other",
    }
}

label! {
    /// What the response to an attempt said.
    ResponseClass, "class" {
        /// 100 to 299.
        Success = "2xx",
        /// 300 to 399.
        Redirect = "3xx",
        /// 400 to 499.
        ClientError = "4xx",
        /// 500 and more.
        ServerError = "5xx",
        /// There was none.
        None = "none",
    }
}

impl ResponseClass {
    /// The class of a status; absent if there was no response.
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
    /// What keeps attempts from starting although an executor has free slots, or because it has none.
    Cap, "cap" {
        /// All slots of the executor.
        Slots = "slots",
        /// Those of one account.
        Account = "account",
        /// Those to one host.
        Host = "host",
    }
}

label! {
    /// What became of a tick of the canary.
    CanaryResult, "result" {
        /// It ran when it was due.
        OnTime = "on_time",
        /// It ran, too late.
        Late = "late",
        /// It did not run.
        Missed = "missed",
        /// It ran more than once.
        Doubled = "doubled",
    }
}

label! {
    /// What a file of certificates is for.
    CertificateUse, "certificate" {
        /// Trusted by requests to targets.
        Outbound = "outbound",
        /// Trusted when mail is sent.
        Mail = "mail",
        /// Trusted as the queue's.
        Queue = "queue",
        /// Trusted as the cluster's.
        Cluster = "cluster",
        /// Trusted as the store's, or shown to it.
        Store = "store",
    }
}

label! {
    /// The version of this binary.
    Version, "version" {
        /// The one that runs.
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
