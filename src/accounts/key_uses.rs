//! The last use of each key: recorded in memory, and written to the store in the background.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::{AccountId, KeyId, Timestamp};
use crate::runtime::{LoopPause, Mutex, RunError, Worker};
use crate::store::{KeyUse, SharedStore};

/// The interval between two writes.
const STEP: Duration = Duration::from_secs(60);
/// The maximum number of keys in the buffer. Uses of further keys are dropped until it is written.
const MAX_KEYS: usize = 10_000;

/// The buffer of unwritten key uses: the last use of each key. Clones share it.
#[derive(Clone, Default)]
pub(super) struct KeyUses(Arc<Mutex<HashMap<(AccountId, KeyId), Timestamp>>>);

impl KeyUses {
    /// Records a use of an account's key.
    pub(super) fn note(&self, key: (AccountId, KeyId), at: Timestamp) {
        let mut uses = self.0.lock();
        if uses.len() < MAX_KEYS || uses.contains_key(&key) {
            let latest = uses.entry(key).or_insert(at);
            *latest = at.max(*latest);
        }
    }

    /// Removes and returns all recorded uses.
    fn take(&self) -> Vec<KeyUse> {
        let uses = std::mem::take(&mut *self.0.lock());
        uses.into_iter().map(|((account, key), at)| KeyUse { account, key, at }).collect()
    }
}

/// A worker that writes the last uses of keys once per minute. If the store is unavailable, it
/// keeps them for the next write. No call waits for this worker.
pub struct KeyUseWriter {
    store: SharedStore,
    uses: KeyUses,
}

impl KeyUseWriter {
    pub(super) fn new(store: SharedStore, uses: KeyUses) -> Self {
        Self { store, uses }
    }
}

#[async_trait]
impl Worker for KeyUseWriter {
    async fn run_once(&mut self, _: Timestamp) -> Result<LoopPause, RunError> {
        let uses = self.uses.take();
        if !uses.is_empty()
            && let Err(error) = self.store.note_key_uses(&uses).await
        {
            tracing::debug!(%error, keys = uses.len(), "could not write key uses, keeping them");
            for KeyUse { account, key, at } in uses {
                self.uses.note((account, key), at);
            }
        }
        Ok(LoopPause::For(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_key_the_last_use_is_kept_and_not_of_too_many() {
        let uses = KeyUses::default();
        let at = Timestamp::from_millis;
        let account = AccountId::from_bytes([1; 16]);
        let key = |number: usize| KeyId::new(at(0), number as u128);
        for number in 0..=MAX_KEYS {
            uses.note((account, key(number)), at(5));
        }
        uses.note((account, key(0)), at(7));
        uses.note((account, key(0)), at(6));
        let taken = uses.take();
        assert_eq!(taken.len(), MAX_KEYS);
        let first = taken.iter().find(|one| one.key == key(0)).expect("noted");
        assert_eq!(*first, KeyUse { account, key: key(0), at: at(7) });
        assert!(uses.take().is_empty());
    }
}
