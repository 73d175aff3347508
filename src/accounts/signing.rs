//! The operator commands for signing secrets.

use std::time::Duration;

use super::operators::{AccountError, Accounts};
use crate::domain::SigningSecretId;
use crate::domain::audit::{Action, Author};
use crate::domain::signing::SigningSecret;
use crate::store::{Account, KnownSecret, NewSecret};

impl Accounts {
    /// Returns the signing secrets of an account, newest first. An expired secret is still listed
    /// for some minutes. A caller that shows them to a person must first call
    /// [`Self::note_reading`].
    pub async fn signing_secrets(
        &self,
        account: &Account,
    ) -> Result<Vec<KnownSecret>, AccountError> {
        Ok(self.store.signing_secrets(account.id).await?)
    }

    /// Records in the account's audit log that secrets are about to be read in clear text, and how.
    pub async fn note_reading(
        &self,
        author: Author,
        account: &Account,
        how: Action,
    ) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        Ok(self.store.enter_reading(&write, how).await?)
    }

    /// Creates a new secret that signs requests from the next claim on. The previous secret also
    /// signs until `overlap` is over; an older secret that was about to expire ends at once.
    /// Returns the new id.
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
        // An old secret that cannot be decrypted cannot sign, and every job would fail until it
        // expires. It therefore expires now.
        let is_readable = known.iter().all(|known| known.secret.is_some());
        let old_expires_at = if is_readable { now.plus(overlap) } else { now };
        let new = NewSecret { id, secret, old_expires_at };
        let write = self.write(account.id, author, now);
        let gone = || AccountError::NoSuchAccount(account.name.clone());
        let rotated = self.store.rotate_signing_secret(&write, &new).await?;
        rotated.then_some(id).ok_or_else(gone)
    }
}
