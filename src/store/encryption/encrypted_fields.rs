//! Seals and opens the secret columns: the bodies and headers of versions, the answers to calls
//! with an idempotency key, the signing secrets, and the configurations of channels.

use std::collections::HashMap;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::cipher::{OpenError, SecretCipher};
use crate::domain::call::IdempotencyKey;
use crate::domain::channel::ChannelConfig;
use crate::domain::job::Job;
use crate::domain::outcome::Failure;
use crate::domain::schedule::{Definition, Schedule, UnreadableFields};
use crate::domain::signing::SigningSecret;
use crate::domain::{AccountId, ChannelId, JobId, SigningSecretId, VersionId};
use crate::store::contract::idempotency::StoredKey;
use crate::store::contract::secrets::{SealedRow, SealedTable};
use crate::store::contract::signing::SealedSecret;
use crate::store::corrupt_rows::{CorruptRows, secret_unreadable, signing_secret_unreadable};
use crate::store::{
    ClaimedJob, ClaimedJobs, KnownSecret, NewVersion, StoredVersion, UnreadableJob,
};

/// The names of the columns, which are authenticated with the sealed values.
pub(in crate::store) const BODY: &str = "schedule_versions.body";
pub(in crate::store) const HEADERS: &str = "schedule_versions.headers";
const ANSWER: &str = "idempotency_keys.answer";
const SIGNING_SECRET: &str = "signing_secrets.secret";
const CHANNEL_CONFIG: &str = "notification_channels.config";

/// Seals the secrets that an adapter writes, and opens those that it reads. Clones share the keys.
#[derive(Clone)]
pub(in crate::store) struct EncryptedFields {
    pub(in crate::store) cipher: SecretCipher,
    corrupt_rows: Arc<CorruptRows>,
}

impl EncryptedFields {
    pub(in crate::store) fn new(cipher: SecretCipher, corrupt_rows: Arc<CorruptRows>) -> Self {
        Self { cipher, corrupt_rows }
    }

    /// Returns a copy of the version with its secrets sealed.
    pub(in crate::store) fn seal(&self, account: AccountId, version: &NewVersion) -> NewVersion {
        let mut sealed = version.clone();
        let row = version.id.to_bytes();
        let Definition { body, headers, .. } = &mut sealed.definition;
        for (field, column) in [(body, BODY), (headers, HEADERS)] {
            if let Some(text) = field {
                *text = self.cipher.seal(account, &row, column, text);
            }
        }
        sealed
    }

    /// Opens the secrets of a schedule. A field that does not open becomes absent and is listed as
    /// unreadable.
    pub(in crate::store) fn open_schedule(&self, account: AccountId, schedule: &mut Schedule) {
        let Definition { body, headers, .. } = &mut schedule.definition;
        let lost = self.open(account, schedule.version, body, headers);
        schedule.unreadable = lost.unwrap_or_default();
    }

    /// Opens the secrets of a job. A field that does not open becomes absent and is listed as
    /// unreadable.
    pub(in crate::store) fn open_job(&self, account: AccountId, version: VersionId, job: &mut Job) {
        let lost = self.open(account, version, &mut job.body, &mut job.headers);
        job.unreadable = lost.unwrap_or_default();
    }

    /// Opens the secrets of a version. A field that does not open becomes absent and is listed as
    /// unreadable.
    pub(in crate::store) fn open_version(&self, account: AccountId, version: &mut StoredVersion) {
        let Definition { body, headers, .. } = &mut version.definition;
        let lost = self.open(account, version.id, body, headers);
        version.unreadable = lost.unwrap_or_default();
    }

    /// Opens the secrets of claimed jobs. A job cannot be sent if its request or a signing secret
    /// does not open; it becomes unreadable. `secrets` are the signing secrets of the jobs that
    /// sign.
    pub(in crate::store) fn open_claims(
        &self,
        claims: ClaimedJobs,
        mut secrets: HashMap<JobId, Vec<SealedSecret>>,
    ) -> ClaimedJobs {
        let ClaimedJobs { taken, mut unreadable } = claims;
        let mut opened = Vec::with_capacity(taken.len());
        for mut claimed in taken {
            let sealed = secrets.remove(&claimed.job).unwrap_or_default();
            match self.open_claimed(&mut claimed, sealed) {
                None => opened.push(claimed),
                Some(failure) => {
                    let ClaimedJob { job, attempt, .. } = claimed;
                    unreadable.push(UnreadableJob { job, attempt, failure });
                }
            }
        }
        ClaimedJobs { taken: opened, unreadable }
    }

    /// Opens the secrets of a claimed job. Returns the failure if it cannot be sent.
    fn open_claimed(&self, claimed: &mut ClaimedJob, sealed: Vec<SealedSecret>) -> Option<Failure> {
        let ClaimedJob { account, version, ref mut definition, .. } = *claimed;
        let Definition { body, headers, sign_requests, .. } = definition;
        if self.open(account, version, body, headers).is_some() {
            return Some(secret_unreadable());
        }
        if *sign_requests {
            let secrets = sealed.into_iter().map(|secret| self.open_known(account, secret).secret);
            let secrets = secrets.collect::<Option<Vec<_>>>().filter(|some| !some.is_empty());
            let Some(secrets) = secrets else { return Some(signing_secret_unreadable()) };
            claimed.signing_secrets = secrets;
        }
        None
    }

    /// Returns the id of the first signing secret of an account, and a new secret, sealed.
    pub(in crate::store) fn first_secret(&self, account: AccountId) -> (SigningSecretId, String) {
        let id = SigningSecretId::first_of(account);
        (id, self.seal_secret(account, id, &self.cipher.signing_secret()))
    }

    /// Returns a signing secret, sealed.
    pub(in crate::store) fn seal_secret(
        &self,
        account: AccountId,
        id: SigningSecretId,
        secret: &SigningSecret,
    ) -> String {
        self.cipher.seal(account, &id.to_bytes(), SIGNING_SECRET, &secret.reveal())
    }

    /// Opens a signing secret. A secret that does not open is absent.
    pub(in crate::store) fn open_known(
        &self,
        account: AccountId,
        sealed: SealedSecret,
    ) -> KnownSecret {
        let SealedSecret { id, secret, created_at, expires_at } = sealed;
        let opened = self.cipher.open(account, &id.to_bytes(), SIGNING_SECRET, &secret);
        let read = |text: String| {
            let text = Zeroizing::new(text);
            text.parse::<SigningSecret>().map_err(|why| why.to_string())
        };
        let secret = opened.map_err(|why| why.to_string()).and_then(read);
        let log = |why: &String| {
            self.corrupt_rows.log("signing_secrets", &id, &format!("{SIGNING_SECRET}: {why}"));
        };
        KnownSecret { id, secret: secret.inspect_err(log).ok(), created_at, expires_at }
    }

    /// Returns the configuration of a channel, sealed.
    pub(in crate::store) fn seal_config(
        &self,
        account: AccountId,
        channel: ChannelId,
        config: &ChannelConfig,
    ) -> String {
        self.cipher.seal(account, &channel.to_bytes(), CHANNEL_CONFIG, config.reveal())
    }

    /// Opens the configuration of a channel. Returns `None` if it does not open.
    pub(in crate::store) fn open_config(
        &self,
        account: AccountId,
        channel: ChannelId,
        sealed: &str,
    ) -> Option<ChannelConfig> {
        let opened = self.cipher.open(account, &channel.to_bytes(), CHANNEL_CONFIG, sealed);
        let log = |why: &OpenError| {
            let error = format!("{CHANNEL_CONFIG}: {why}");
            self.corrupt_rows.log("notification_channels", &channel, &error);
        };
        opened.inspect_err(log).ok().map(ChannelConfig::new)
    }

    /// Returns the answer to a call, sealed.
    pub(in crate::store) fn seal_answer(
        &self,
        account: AccountId,
        key: IdempotencyKey,
        answer: &str,
    ) -> String {
        self.cipher.seal(account, &key.0, ANSWER, answer)
    }

    /// Opens the answer of an idempotency key. An answer that does not open counts as lost, as if
    /// there had been none yet.
    pub(in crate::store) fn open_answer(
        &self,
        account: AccountId,
        key: IdempotencyKey,
        stored: &mut StoredKey,
    ) {
        let opened =
            stored.answer.take().map(|answer| self.cipher.open(account, &key.0, ANSWER, &answer));
        let log = |why: &OpenError| {
            let id = format!("{:032x}", u128::from_be_bytes(key.0));
            self.corrupt_rows.log("idempotency_keys", &id, &format!("{ANSWER}: {why}"));
        };
        stored.answer = opened.and_then(|opened| opened.inspect_err(log).ok());
    }

    /// Seals a row's values with the first key. Returns `None` if they cannot be opened.
    pub(in crate::store) fn reseal(
        &self,
        table: SealedTable,
        row: &SealedRow,
    ) -> Option<Vec<Option<String>>> {
        let resealed = self.cipher.reseal(table, row);
        let log = |why: &OpenError| {
            self.corrupt_rows.log(
                table.name(),
                &format!("{:032x}", u128::from_be_bytes(row.id)),
                &why.to_string(),
            );
        };
        resealed.inspect_err(log).ok()
    }

    /// Opens both fields. Returns the fields that do not open, if any.
    fn open(
        &self,
        account: AccountId,
        version: VersionId,
        body: &mut Option<String>,
        headers: &mut Option<String>,
    ) -> Option<UnreadableFields> {
        let open = |field: &mut Option<String>, column| {
            let Some(sealed) = field else { return false };
            match self.cipher.open(account, &version.to_bytes(), column, sealed) {
                Ok(text) => *field = Some(text),
                Err(why) => {
                    *field = None;
                    let error = format!("{column}: {why}");
                    self.corrupt_rows.log("schedule_versions", &version, &error);
                    return true;
                }
            }
            false
        };
        let lost = UnreadableFields { body: open(body, BODY), headers: open(headers, HEADERS) };
        (lost.body || lost.headers).then_some(lost)
    }
}
