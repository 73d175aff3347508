//! What becomes of attempts that have ended: their outcomes are committed in batches.

mod commit;
pub(super) mod committer;
mod deferred;
pub(super) mod orphans;
