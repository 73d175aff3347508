//! Calls that take effect once.

use async_trait::async_trait;

use super::{SqliteStore, reservations};
use crate::domain::call::Once;
use crate::domain::{AccountId, Timestamp};
use crate::store::{IdempotencyStore, Reservation, Reserved, Result};

#[async_trait]
impl IdempotencyStore for SqliteStore {
    async fn reserve(
        &self,
        account: AccountId,
        now: Timestamp,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let (new, vault) = (*reservation, self.vault.clone());
        self.write("reserve", move |connection| {
            Box::pin(reservations::reserve(connection, vault, account, now, new))
        })
        .await
    }

    async fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> Result<()> {
        let answer = self.vault.seal_answer(account, once.key, answer);
        self.write("keep_answer", move |connection| {
            Box::pin(reservations::keep(connection, account, once, answer))
        })
        .await
    }

    async fn release(&self, account: AccountId, once: Once) -> Result<()> {
        self.write("release", move |connection| {
            Box::pin(reservations::release(connection, account, once))
        })
        .await
    }

    async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_answers", limit as usize, move |connection| {
            Box::pin(reservations::prune(connection, before, limit))
        })
        .await
    }
}

/// Nobody else writes meanwhile.
pub(super) use crate::store::idempotency::READ as HELD;

pub(super) const PRUNE: &str = "
    DELETE FROM idempotency_keys WHERE id IN
        (SELECT id FROM idempotency_keys WHERE reserved_at < ?1
         ORDER BY reserved_at LIMIT ?2)";
