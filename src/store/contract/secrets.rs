//! Encryption keys, and the stored secrets that are sealed with them.

use crate::domain::AccountId;
use crate::runtime::measured;
use crate::store::{INSTALLATION, OpenError, Result, SecretCipher};

const PROOF_COLUMN: &str = "secret_keys.proof";
const PROOF_TEXT: &str = "punctual";

/// An encryption key that stored secrets may be sealed with: its id, and a known text sealed with
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyProof {
    /// The id of the key.
    pub id: String,
    /// The sealed text. It opens only with the same key, so it detects another key with the same
    /// id.
    pub proof: String,
}

impl SecretCipher {
    /// Returns the proof of the key that seals.
    pub(in crate::store) fn prove(&self) -> KeyProof {
        let id = self.first().to_owned();
        let proof = self.seal(INSTALLATION, id.as_bytes(), PROOF_COLUMN, PROOF_TEXT);
        KeyProof { id, proof }
    }

    /// Returns those of `others`, and of the key that seals, that are not in `known`. Returns the
    /// reason as an error if secrets that are sealed with one of these keys cannot be opened.
    pub(in crate::store) fn new_keys(
        &self,
        stored: &[KeyProof],
        others: &[KeyProof],
    ) -> std::result::Result<Vec<KeyProof>, String> {
        self.check(stored.iter().chain(others))?;
        let own = self.prove();
        let own = (others.iter().all(|other| other.id != own.id)).then_some(own);
        let is_new = |proof: &KeyProof| stored.iter().all(|stored| stored.id != proof.id);
        Ok(others.iter().cloned().chain(own).filter(is_new).collect())
    }

    /// Checks that secrets sealed with the proven keys can be opened.
    ///
    /// # Errors
    /// Names the key that is missing or different, and what to do. The subject of the message is
    /// the store.
    pub fn check<'a>(
        &self,
        proofs: impl IntoIterator<Item = &'a KeyProof>,
    ) -> std::result::Result<(), String> {
        proofs.into_iter().try_for_each(|proof| self.check_one(proof))
    }

    fn check_one(&self, KeyProof { id, proof }: &KeyProof) -> std::result::Result<(), String> {
        let add = "to secrets.keys or secrets.keys_file";
        if !self.knows(id) {
            return Err(format!(
                "its secrets are encrypted with the key {id:?}, which is not configured: \
                 add it {add}"
            ));
        }
        match self.open(INSTALLATION, id.as_bytes(), PROOF_COLUMN, proof) {
            Ok(text) if text == PROOF_TEXT => Ok(()),
            Ok(_) | Err(OpenError::Forged | OpenError::UnknownKey(_)) => Err(format!(
                "its secrets are encrypted with another key of the id {id:?}: \
                 add that key {add}"
            )),
        }
    }
}

/// A table that has sealed columns. Its rows have an id of 16 bytes and an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedTable {
    /// The bodies and headers of requests.
    Versions,
    /// The answers to calls with an idempotency key, which may show bodies and headers.
    IdempotencyKeys,
    /// The secrets that requests are signed with.
    SigningSecrets,
    /// The configurations of notification channels.
    Channels,
}

impl SealedTable {
    /// All tables with sealed columns.
    pub const ALL: [Self; 4] =
        [Self::Versions, Self::IdempotencyKeys, Self::SigningSecrets, Self::Channels];

    /// Returns the name of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Versions => "schedule_versions",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::SigningSecrets => "signing_secrets",
            Self::Channels => "notification_channels",
        }
    }

    /// Returns the names of its sealed columns.
    pub(in crate::store) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Versions => &["body", "headers"],
            Self::IdempotencyKeys => &["answer"],
            Self::SigningSecrets => &["secret"],
            Self::Channels => &["config"],
        }
    }

    /// Returns the condition that a row has a secret that the first key has not sealed. `parameter`
    /// is the parameter with the prefix of that key.
    pub(in crate::store) fn is_stale(self, parameter: &str) -> String {
        let column = |column: &&str| {
            format!(
                "({column} IS NOT NULL AND substr({column}, 1, length({parameter})) <> {parameter})"
            )
        };
        self.columns().iter().map(column).collect::<Vec<_>>().join(" OR ")
    }
}

/// The result of sealing some rows again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The number of rows that the first key has sealed now.
    pub sealed: u64,
    /// The accounts of rows that cannot be opened, one entry for each row. These rows stay as they
    /// are.
    pub unreadable: Vec<AccountId>,
    /// The last row that was processed; absent if there was none.
    pub last: Option<[u8; 16]>,
}

/// A row with sealed columns, as read.
pub(in crate::store) struct SealedRow {
    pub(in crate::store) id: [u8; 16],
    pub(in crate::store) account: AccountId,
    /// The values, in the order of the table's columns.
    pub(in crate::store) values: Vec<Option<String>>,
}

impl SecretCipher {
    /// Seals a row's values with the first key.
    pub(in crate::store) fn reseal(
        &self,
        table: SealedTable,
        row: &SealedRow,
    ) -> std::result::Result<Vec<Option<String>>, OpenError> {
        let values = row.values.iter().zip(table.columns());
        let reseal = |(value, column): (&Option<String>, &&str)| {
            let column = format!("{}.{column}", table.name());
            let reseal = |stored: &String| {
                let text = self.open(row.account, &row.id, &column, stored)?;
                Ok(self.seal(row.account, &row.id, &column, &text))
            };
            value.as_ref().map(reseal).transpose()
        };
        values.map(reseal).collect()
    }
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Encryption keys, and the stored secrets that are sealed with them.
    pub trait SecretStore: Send + Sync {
        /// Checks that secrets sealed with the keys of the store and with `others` can be opened,
        /// and records `others` and the first key as keys of the store. Fails with `WrongKeys` if a
        /// key is missing or differs from the recorded one.
        async fn use_keys(&self, others: &[KeyProof]) -> Result<()>;

        /// Returns the keys that stored secrets may be sealed with, sorted by id.
        async fn key_proofs(&self) -> Result<Vec<KeyProof>>;

        /// Returns the number of rows with a secret that the first key has not sealed.
        async fn stale_secrets(&self) -> Result<u64>;

        /// Seals, with the first key, the rows of a table with a secret that it has not sealed:
        /// those after `after`, at most `limit`.
        async fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Result<Resealed>;

        /// Removes all keys of the store but the first one. Removes none while a stale secret needs
        /// them. With `abandon`, stale secrets that cannot be opened do not count. Returns the ids
        /// of the removed keys.
        async fn forget_keys(&self, abandon: bool) -> Result<Vec<String>>;
    }
}
