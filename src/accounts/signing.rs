//! What operators do with the secrets that requests are signed with.

use std::time::Duration;

use super::operators::{AccountError, Accounts};
use crate::domain::SigningSecretId;
use crate::domain::audit::{Action, Author};
use crate::domain::signing::SigningSecret;
use crate::store::{Account, KnownSecret, NewSecret};

impl Accounts {
    /// The secrets of an account, newest first. One that has expired is among them for some minutes.
    /// Who shows them to somebody says so first: see [`Self::note_reading`].
    pub async fn signing_secrets(
        &self,
        account: &Account,
    ) -> Result<Vec<KnownSecret>, AccountError> {
        Ok(self.store.signing_secrets(account.id).await?)
    }

    /// Notes in the account's log that somebody is about to read secrets in clear, and how.
    pub async fn note_reading(
        &self,
        author: Author,
        account: &Account,
        how: Action,
    ) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        Ok(self.store.enter_reading(&write, how).await?)
    }

    /// Makes a new secret that signs from the next claim on. The one before signs too until
    /// `overlap` is over; one that was to end already does so at once. Returns the id.
    pub async fn rotate_signing_secret(
        &self,
        author: Author,
        account: &Account,
        overlap: Duration,
    ) -> Result<SigningSecretId, AccountError> {
        let now = self.clock.now();
        let id = SigningSecretId::new(now, self.random.bits());
        let secret = SigningSecret::new(|bytes| self.random.fill(bytes));
        let known = self.store.signing_secrets(account.id).await?;
        // What cannot be read signs nothing, and would fail all jobs until then.
        let is_readable = known.iter().all(|known| known.secret.is_some());
        let old_expires_at = if is_readable { now.plus(overlap) } else { now };
        let new = NewSecret { id, secret, old_expires_at };
        let write = self.write(account.id, author, now);
        let gone = || AccountError::NoSuchAccount(account.name.clone());
        let rotated = self.store.rotate_signing_secret(&write, &new).await?;
        rotated.then_some(id).ok_or_else(gone)
    }
}
