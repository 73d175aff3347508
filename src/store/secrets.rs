//! Keys, and the stored secrets that are sealed with them.

use super::{INSTALLATION, OpenError, Result, Sealer};
use crate::domain::AccountId;
use crate::runtime::measured;

const PROOF_COLUMN: &str = "secret_keys.proof";
const PROOF_TEXT: &str = "punctual";

/// A key that stored secrets may be sealed with: its id, and a text that it has sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyProof {
    /// The id.
    pub id: String,
    /// Shows whether a key of that id is this one.
    pub proof: String,
}

impl Sealer {
    /// The proof of the key that seals.
    pub(in crate::store) fn prove(&self) -> KeyProof {
        let id = self.first().to_owned();
        let proof = self.seal(INSTALLATION, id.as_bytes(), PROOF_COLUMN, PROOF_TEXT);
        KeyProof { id, proof }
    }

    /// Those of `others`, and of the key that seals, that are not `known`; or why secrets that are
    /// sealed with one of all these cannot be opened.
    pub(in crate::store) fn new_keys(
        &self,
        known: &[KeyProof],
        others: &[KeyProof],
    ) -> std::result::Result<Vec<KeyProof>, String> {
        self.check(known.iter().chain(others))?;
        let own = self.prove();
        let own = (others.iter().all(|other| other.id != own.id)).then_some(own);
        let is_new = |proof: &KeyProof| known.iter().all(|known| known.id != proof.id);
        Ok(others.iter().cloned().chain(own).filter(is_new).collect())
    }

    /// Whether secrets that were sealed with the proven keys can be opened, or why not.
    ///
    /// # Errors
    /// Which key is missing or another one, and what to do, as what is said of the store.
    pub fn check<'a>(
        &self,
        proofs: impl IntoIterator<Item = &'a KeyProof>,
    ) -> std::result::Result<(), String> {
        proofs.into_iter().try_for_each(|proof| self.check_one(proof))
    }

    fn check_one(&self, KeyProof { id, proof }: &KeyProof) -> std::result::Result<(), String> {
        let restore = "give it back in secrets.keys or secrets.keys_file";
        if !self.knows(id) {
            return Err(format!(
                "it has secrets sealed with the key {id:?}, which is missing: {restore}"
            ));
        }
        match self.open(INSTALLATION, id.as_bytes(), PROOF_COLUMN, proof) {
            Ok(text) if text == PROOF_TEXT => Ok(()),
            Ok(_) | Err(OpenError::Forged | OpenError::UnknownKey(_)) => {
                Err(format!("its secrets are sealed with another key of the id {id:?}: {restore}"))
            }
        }
    }
}

/// A table that has sealed columns. Its rows have an id of 16 bytes and an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedTable {
    /// Bodies and headers of requests.
    Versions,
    /// Answers to calls that take effect once, which can show these.
    IdempotencyKeys,
    /// The secrets that requests are signed with.
    SigningSecrets,
    /// The configurations of notification channels.
    Channels,
}

impl SealedTable {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Versions, Self::IdempotencyKeys, Self::SigningSecrets, Self::Channels];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Versions => "schedule_versions",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::SigningSecrets => "signing_secrets",
            Self::Channels => "notification_channels",
        }
    }

    /// Its sealed columns.
    pub(in crate::store) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Versions => &["body", "headers"],
            Self::IdempotencyKeys => &["answer"],
            Self::SigningSecrets => &["secret"],
            Self::Channels => &["config"],
        }
    }

    /// The condition by which a row has a secret that the key with the parameter's prefix has not
    /// sealed.
    pub(in crate::store) fn is_stale(self, parameter: &str) -> String {
        let column = |column: &&str| {
            format!(
                "({column} IS NOT NULL AND substr({column}, 1, length({parameter})) <> {parameter})"
            )
        };
        self.columns().iter().map(column).collect::<Vec<_>>().join(" OR ")
    }
}

/// What sealing some rows anew has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Rows that are sealed with the first key now.
    pub sealed: u64,
    /// Whose rows cannot be opened, one entry a row; they stay as they are.
    pub unreadable: Vec<AccountId>,
    /// The last row that was looked at; absent when there is none left.
    pub last: Option<[u8; 16]>,
}

/// A row with sealed columns, as read.
pub(in crate::store) struct SealedRow {
    pub(in crate::store) id: [u8; 16],
    pub(in crate::store) account: AccountId,
    /// In the order of the table's columns.
    pub(in crate::store) values: Vec<Option<String>>,
}

impl Sealer {
    /// Seals a row's values with the first key.
    pub(in crate::store) fn reseal(
        &self,
        table: SealedTable,
        row: &SealedRow,
    ) -> std::result::Result<Vec<Option<String>>, OpenError> {
        let values = row.values.iter().zip(table.columns());
        let reseal = |(value, column): (&Option<String>, &&str)| {
            let place = format!("{}.{column}", table.name());
            let reseal = |stored: &String| {
                let text = self.open(row.account, &row.id, &place, stored)?;
                Ok(self.seal(row.account, &row.id, &place, &text))
            };
            value.as_ref().map(reseal).transpose()
        };
        values.map(reseal).collect()
    }
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Keys, and the stored secrets that are sealed with them.
    pub trait SecretStore: Send + Sync {
        /// Makes sure that secrets sealed with the keys of the store, and with `others`, can be
        /// opened, and notes these and the first key as keys of the store. `WrongKeys` if a key is
        /// missing or is not the one it was.
        async fn use_keys(&self, others: &[KeyProof]) -> Result<()>;

        /// The keys that stored secrets may be sealed with, by their ids.
        async fn key_proofs(&self) -> Result<Vec<KeyProof>>;

        /// How many rows have a secret that the first key has not sealed.
        async fn stale_secrets(&self) -> Result<u64>;

        /// Seals those rows of a table with the first key that follow `after`, at most `limit`.
        async fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Result<Resealed>;

        /// Takes away the keys of the store that nothing is sealed with any more: all but the first
        /// one, and those if there are stale secrets. With `abandon`, stale secrets that cannot be opened
        /// do not count. Returns the keys that were taken away.
        async fn forget_keys(&self, abandon: bool) -> Result<Vec<String>>;
    }
}
