//! The encoding of a ticket in the server: 16 bytes of account, 8 of host, 16 of job. A ready
//! ticket has 15 digits of its start after these.

use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, Timestamp};

/// The length of a ready ticket in bytes.
const READY: usize = 55;

pub(super) fn encode(ticket: &Ticket) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(READY);
    bytes.extend(ticket.account.to_bytes());
    bytes.extend(ticket.host.0.to_be_bytes());
    bytes.extend(ticket.job.to_bytes());
    bytes
}

/// Reads the ready tickets of a shard, which follow each other in `bytes`.
pub(super) fn decode_all(shard: ShardId, bytes: &[u8]) -> Vec<Ticket> {
    bytes.chunks_exact(READY).filter_map(|bytes| decode(shard, bytes)).collect()
}

fn decode(shard: ShardId, bytes: &[u8]) -> Option<Ticket> {
    let (account, rest) = bytes.split_first_chunk()?;
    let (host, rest) = rest.split_first_chunk()?;
    let (job, start) = rest.split_first_chunk()?;
    let start = std::str::from_utf8(start).ok()?.parse().ok()?;
    Some(Ticket {
        job: JobId::from_bytes(*job),
        shard,
        account: AccountId::from_bytes(*account),
        host: HostKey(u64::from_be_bytes(*host)),
        start: Timestamp::from_millis(start),
    })
}
