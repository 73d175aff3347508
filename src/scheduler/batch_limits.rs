//! The sizes of batches of upkeep. A batch that times out is not repeated unchanged.

use std::collections::HashMap;

use crate::domain::AccountId;
use crate::runtime::BatchSize;
use crate::store;

/// Adapts a size to the result of its last batch. Only a timeout makes it smaller.
pub(super) fn adapt<T>(size: &BatchSize, result: &store::Result<T>) {
    match result {
        Ok(_) => size.adapt(true),
        Err(error) if error.may_be_slow() => size.adapt(false),
        Err(_) => {}
    }
}

/// The number of rows per batch, for each account. A batch of an account that times out does not
/// make the batches of other accounts smaller.
pub(super) struct AccountBatches {
    most: u32,
    /// The sizes below the maximum.
    smaller: HashMap<AccountId, BatchSize>,
}

impl AccountBatches {
    /// Batches of at most `most` rows.
    pub(super) fn new(most: u32) -> Self {
        Self { most, smaller: HashMap::new() }
    }

    /// Returns the number of rows for the next batch of an account.
    pub(super) fn limit(&self, account: AccountId) -> u32 {
        self.smaller.get(&account).map_or(self.most, BatchSize::rows)
    }

    /// Adapts the size to the result of the account's last batch.
    pub(super) fn adapt<T>(&mut self, account: AccountId, result: &store::Result<T>) {
        let new = || BatchSize::new(self.most as usize);
        let size = self.smaller.entry(account).or_insert_with(new);
        adapt(size, result);
        if size.rows() == self.most {
            self.smaller.remove(&account);
        }
    }

    /// Forgets an account that is gone.
    pub(super) fn forget(&mut self, account: AccountId) {
        self.smaller.remove(&account);
    }
}
