//! The batch sizes of accounts. A batch of an account that times out is not repeated unchanged, and
//! does not make the batches of other accounts smaller.

use std::collections::HashMap;

use crate::domain::AccountId;
use crate::runtime::BatchSize;
use crate::store;

/// The number of rows per batch, for each account.
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
        match result {
            Err(error) if error.may_be_slow() => {
                let size = || BatchSize::new(self.most as usize);
                self.smaller.entry(account).or_insert_with(size).adapt(false);
            }
            Err(_) => {}
            Ok(_) => {
                if let Some(size) = self.smaller.get(&account) {
                    size.adapt(true);
                }
                self.smaller.retain(|_, size| size.rows() < self.most);
            }
        }
    }

    /// Forgets an account that is gone.
    pub(super) fn forget(&mut self, account: AccountId) {
        self.smaller.remove(&account);
    }
}
