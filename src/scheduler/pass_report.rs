//! The result of one pass of the leader.

use crate::runtime::RunError;

/// The result of a pass.
#[derive(Default)]
pub(super) struct PassReport {
    pub(super) served: usize,
    pub(super) unserved: usize,
    pub(super) fired: usize,
    pub(super) unfired: usize,
    /// The error of the last shard that was not served, or of the last batch that was not fired.
    pub(super) error: Option<RunError>,
    /// `true` if a hint arrived that some of the shards may have missed.
    pub(super) is_hinted: bool,
}

impl PassReport {
    /// Returns `true` if every attempt to serve a shard failed, or every batch.
    pub(super) fn is_vain(&self) -> bool {
        self.unserved > 0 && self.served == 0 || self.unfired > 0 && self.fired == 0
    }
}
