//! Idempotent calls: each takes effect once per idempotency key of an account.

use super::Accounts;
use crate::domain::AccountId;
use crate::domain::call::{Idempotency, IdempotencyKey};
use crate::store::{Reservation, Reserved, StoreError};

impl Accounts {
    /// Reserves an idempotency key for a call whose body has this SHA-256. Returns the reservation
    /// and the state of the key.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn reserve(
        &self,
        account: AccountId,
        key: IdempotencyKey,
        request: [u8; 32],
    ) -> Result<(Idempotency, Reserved), StoreError> {
        let idempotency = Idempotency { key, holder: self.random.bits() };
        let reservation = Reservation { idempotency, request };
        let reserved = self.store.reserve(account, self.clock.now(), &reservation).await?;
        Ok((idempotency, reserved))
    }

    /// Stores the answer of a call.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn keep_answer(
        &self,
        account: AccountId,
        idempotency: Idempotency,
        answer: &str,
    ) -> Result<(), StoreError> {
        self.store.keep_answer(account, idempotency, answer).await
    }

    /// Releases a key after its call had no effect, so that it can be used again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn release(
        &self,
        account: AccountId,
        idempotency: Idempotency,
    ) -> Result<(), StoreError> {
        self.store.release(account, idempotency).await
    }
}
