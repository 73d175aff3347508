//! Calls that take effect once.

use async_trait::async_trait;

use super::{PostgresStore, Within, reservations};
use crate::domain::call::Once;
use crate::domain::{AccountId, Timestamp};
use crate::store::idempotency::read_key;
use crate::store::{IdempotencyStore, Reservation, Reserved, Result};

#[async_trait]
impl IdempotencyStore for PostgresStore {
    async fn reserve(
        &self,
        account: AccountId,
        now: Timestamp,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let (new, vault) = (*reservation, self.vault.clone());
        self.api
            .run("reserve", Within::Transaction, move |connection| {
                Box::pin(reservations::reserve(connection, vault.clone(), account, now, new))
            })
            .await
    }

    async fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> Result<()> {
        let answer = self.vault.seal_answer(account, once.key, answer);
        self.api
            .run("keep_answer", Within::Statement, move |connection| {
                Box::pin(reservations::keep(connection, account, once, answer.clone()))
            })
            .await
    }

    async fn release(&self, account: AccountId, once: Once) -> Result<()> {
        self.api
            .run("release", Within::Statement, move |connection| {
                Box::pin(reservations::release(connection, account, once))
            })
            .await
    }

    async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_answers", Within::Statement, move |connection| {
                Box::pin(reservations::prune(connection, before, limit))
            })
            .await
    }
}

/// One that others hold is not waited for.
pub(super) const HELD: &str = concat!(read_key!(), " FOR UPDATE SKIP LOCKED");
pub(super) const PRUNE: &str = "
    DELETE FROM idempotency_keys WHERE id IN
        (SELECT id FROM idempotency_keys WHERE reserved_at < $1
         ORDER BY reserved_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
