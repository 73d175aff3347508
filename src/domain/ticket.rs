//! Tickets: what the run queue holds.

use sha2::{Digest, Sha256};

use super::shard::ShardId;
use super::{AccountId, JobId, Timestamp};

/// A target host, as the caps per host tell them apart: a hash of its name and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey(pub u64);

impl HostKey {
    /// The key of a host and port, in lower case.
    pub fn of(host: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(host.as_bytes()).into();
        let (head, _) = digest.split_at(8);
        Self(u64::from_be_bytes(head.try_into().expect("eight bytes")))
    }
}

/// What the run queue holds: a hint that a job may start, never a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The job.
    pub job: JobId,
    /// Its shard.
    pub shard: ShardId,
    /// Whose it is, for the cap per account and the fair order.
    pub account: AccountId,
    /// Where it goes, for the cap per host.
    pub host: HostKey,
    /// When it may start.
    pub start: Timestamp,
}
