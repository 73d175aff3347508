//! Completion: commits the outcomes of attempts that have ended, in batches.

mod commit;
pub(super) mod committer;
mod deferred;
pub(super) mod orphans;
