//! Tickets: the entries of the run queue.

use sha2::{Digest, Sha256};

use super::shard::ShardId;
use super::{AccountId, JobId, Timestamp};

/// The key of a target host for the caps per host: a hash of its name and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey(pub u64);

impl HostKey {
    /// Returns the key of a host and port, in lower case.
    pub fn of(host: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(host.as_bytes()).into();
        let (head, _) = digest.split_at(8);
        Self(u64::from_be_bytes(head.try_into().expect("eight bytes")))
    }
}

/// An entry of the run queue: a hint that a job may start, never a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The job.
    pub job: JobId,
    /// The job's shard.
    pub shard: ShardId,
    /// The job's account, for the cap per account and the fair order.
    pub account: AccountId,
    /// The target host, for the cap per host.
    pub host: HostKey,
    /// The earliest start of the job.
    pub start: Timestamp,
}
