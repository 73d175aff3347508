//! The ids of a job's trace and of its spans, derived from the id of the job.

use opentelemetry::{SpanId, TraceId};
use sha2::{Digest, Sha256};

use crate::domain::JobId;

/// A span of a job's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TracePart {
    /// The creation of the job, which is the root of the trace.
    Root,
    /// The job as a whole.
    Job,
    /// One attempt, counted from 1.
    Attempt(u8),
}

/// Returns the id of the job's trace. Both ids have 128 bits and are equal.
pub(super) fn trace_of(job: JobId) -> TraceId {
    TraceId::from_bytes(job.to_bytes())
}

/// Returns the id of a span of the job's trace.
pub(super) fn span_of(job: JobId, part: TracePart) -> SpanId {
    let part = match part {
        TracePart::Root => [0, 0],
        TracePart::Job => [1, 0],
        TracePart::Attempt(number) => [2, number],
    };
    let digest: [u8; 32] =
        Sha256::new().chain_update(job.to_bytes()).chain_update(part).finalize().into();
    let (id, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    SpanId::from_bytes(*id)
}

/// Returns `true` if the trace is sampled, as one of `one_in` traces is. The lower 64 bits of a
/// trace id are effectively random, also in an id of a job.
pub(super) fn is_kept(trace: TraceId, one_in: u64) -> bool {
    let id = trace.to_bytes();
    let low = id.last_chunk().expect("an id has 16 bytes");
    u64::from_be_bytes(*low).is_multiple_of(one_in)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::Timestamp;

    fn job(random: u128) -> JobId {
        JobId::new(Timestamp::from_millis(1_700_000_000_000), random)
    }

    #[test]
    fn the_spans_of_a_job_have_ids_of_their_own() {
        let parts = (1..=10).map(TracePart::Attempt).chain([TracePart::Root, TracePart::Job]);
        let ids: Vec<_> =
            parts.flat_map(|part| [span_of(job(1), part), span_of(job(2), part)]).collect();
        let distinct: HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(
            span_of(job(1), TracePart::Job),
            span_of(job(1), TracePart::Job),
            "on every replica"
        );
        assert_ne!(trace_of(job(1)), trace_of(job(2)));
    }

    #[test]
    fn one_of_so_many_jobs_is_kept() {
        let kept =
            |one_in| (0..1_000).filter(|random| is_kept(trace_of(job(*random)), one_in)).count();
        assert_eq!((kept(1), kept(10), kept(1_000)), (1_000, 100, 1));
    }
}
