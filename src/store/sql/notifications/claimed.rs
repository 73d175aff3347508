//! Claimed deliveries: their rows, and the content of their alerts.

use serde::{Deserialize, Serialize};

use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{DigestAlert, IncidentAlert, JobAlert};
use crate::domain::alert::delivery::{DeliveryError, TRIES};
use crate::domain::job::Job;
use crate::domain::plan::ChannelType;
use crate::domain::schedule::Definition;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, JobId, Timestamp, VersionId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::encoding::rows::{StoreRow, read_rows};
use crate::store::{ClaimedDelivery, DeliveryContent};

/// A delivery whose next try is due. Its row is locked.
pub(in crate::store) struct DueDelivery {
    pub(in crate::store) id: DeliveryId,
    pub(in crate::store) account: AccountId,
    pub(in crate::store) channel: ChannelId,
    pub(in crate::store) event: EventId,
    pub(in crate::store) kind: AlertKind,
    pub(in crate::store) job: Option<JobId>,
    pub(in crate::store) at: Timestamp,
    pub(in crate::store) tries: u8,
    pub(in crate::store) round: u8,
    pub(in crate::store) round_began: Option<Timestamp>,
    pub(in crate::store) failures: u32,
    pub(in crate::store) schedule_name: Option<String>,
    pub(in crate::store) content: Option<String>,
    /// The start of a try that has no recorded end, because its notifier was lost.
    pub(in crate::store) lost_since: Option<Timestamp>,
    /// The channel's type, its encrypted configuration, and `true` if it is verified. Absent: the
    /// channel was deleted.
    pub(in crate::store) to: Option<(ChannelType, String, bool)>,
    /// The revision of the configuration.
    pub(in crate::store) revision: i64,
}

/// Reads the start of a try that has no recorded end.
fn lost_since(row: &impl StoreRow) -> sqlx::Result<Option<Timestamp>> {
    let is_lost = row.read("status").map(|status: i16| status == 2)?;
    let started_at: Option<Timestamp> = row.read("started_at")?;
    Ok(started_at.filter(|_| is_lost))
}

fn destination(row: &impl StoreRow) -> sqlx::Result<Option<(ChannelType, String, bool)>> {
    let kind: Option<ChannelType> = row.read("channel_type")?;
    let (config, verified): (Option<String>, Option<bool>) =
        (row.read("config")?, row.read("verified")?);
    let to = kind.zip(config).zip(verified);
    Ok(to.map(|((kind, config), verified)| (kind, config, verified)))
}

fn revision(row: &impl StoreRow) -> sqlx::Result<i64> {
    row.read("revision").map(|revision: Option<i64>| revision.unwrap_or(0))
}

read_rows! {
    DueDelivery {
        id, account: "account_id", channel: "channel_id", event: "event_id", kind: "type",
        job: "job_id", at, tries as i16, round as i16, round_began, failures as i32,
        schedule_name, content, lost_since by lost_since, to by destination, revision by revision,
    }
    JobContent { version: "version_id", job: _, definition: _ }
}

impl DueDelivery {
    /// Returns the reason why the delivery cannot be tried, if there is one.
    pub(in crate::store) fn undeliverable_reason(&self) -> Option<(DeliveryError, &'static str)> {
        match &self.to {
            None => {
                Some((DeliveryError::ChannelDeleted, "the channel was deleted before delivery"))
            }
            Some((.., false)) => Some((
                DeliveryError::ChannelUnverified,
                "the channel is not verified: verify it, then deliver again",
            )),
            Some(_) if self.lost_since.is_some() && self.tries >= self.round + TRIES => {
                Some((DeliveryError::NotifierLost, LOST))
            }
            Some(_) => None,
        }
    }
}

pub(in crate::store) const LOST: &str =
    "the notifier was lost during the last try: the alert may have arrived";

/// The job that a delivery reports, with the version that it was made with. Its headers are
/// encrypted.
#[derive(Clone)]
pub(in crate::store) struct JobContent {
    version: VersionId,
    pub(in crate::store) job: Job,
    definition: Definition,
}

/// The stored content of an incident's alert. The host and the error are not stored, because they
/// come from the job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::store) struct IncidentContent {
    pub(in crate::store) schedules: u32,
    pub(in crate::store) failing: u32,
    pub(in crate::store) failures: u32,
    pub(in crate::store) names: Vec<String>,
    pub(in crate::store) since: i64,
    pub(in crate::store) until: Option<i64>,
}

/// The stored content of a digest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::store) struct DigestContent {
    /// The number of alerts of each kind.
    pub(in crate::store) counts: Vec<(String, u32)>,
    pub(in crate::store) names: Vec<String>,
    pub(in crate::store) since: i64,
    pub(in crate::store) until: i64,
}

/// A claimed delivery as it was read. The channel's configuration and the job's headers are
/// encrypted.
pub(in crate::store) struct SealedDelivery {
    pub(in crate::store) due: DueDelivery,
    pub(in crate::store) channel_type: ChannelType,
    pub(in crate::store) config: String,
    pub(in crate::store) job: Option<JobContent>,
    /// The time of the claim.
    pub(in crate::store) now: Timestamp,
}

impl SealedDelivery {
    /// Decrypts the delivery for the notifier.
    pub(in crate::store) fn open(self, encrypted_fields: &EncryptedFields) -> ClaimedDelivery {
        let Self { due, channel_type, config, job, now } = self;
        let config = encrypted_fields.open_config(due.account, due.channel, &config);
        let alert = job.map(|content| job_alert(content, &due, encrypted_fields));
        ClaimedDelivery {
            id: due.id,
            event: due.event,
            account: due.account,
            channel: due.channel,
            channel_type,
            revision: due.revision,
            config,
            kind: due.kind,
            at: due.at,
            attempt: due.tries + 1,
            attempt_of_round: due.tries + 1 - due.round,
            round_began: due.round_began.unwrap_or(now),
            content: content(&due, alert),
        }
    }
}

fn job_alert(
    content: JobContent,
    due: &DueDelivery,
    encrypted_fields: &EncryptedFields,
) -> JobAlert {
    let JobContent { version, mut job, mut definition } = content;
    encrypted_fields.open_job(due.account, version, &mut job);
    definition.headers.clone_from(&job.headers);
    let name = due.schedule_name.clone().unwrap_or_default();
    JobAlert::of(name, &job, &definition, due.failures)
}

fn content(due: &DueDelivery, alert: Option<JobAlert>) -> DeliveryContent {
    let text = due.content.as_deref().unwrap_or_default();
    match due.kind {
        AlertKind::Digest => serde_json::from_str(text).map_or(DeliveryContent::Gone, digest),
        AlertKind::IncidentOpened | AlertKind::IncidentClosed => serde_json::from_str(text)
            .map_or(DeliveryContent::Gone, |content| incident(content, due, alert)),
        _ => alert.map_or(DeliveryContent::Gone, |alert| DeliveryContent::Job(Box::new(alert))),
    }
}

fn digest(content: DigestContent) -> DeliveryContent {
    let known = |(kind, count): (String, u32)| Some((kind.parse().ok()?, count));
    DeliveryContent::Digest(DigestAlert {
        counts: content.counts.into_iter().filter_map(known).collect(),
        names: content.names,
        since: Timestamp::from_millis(content.since),
        until: Timestamp::from_millis(content.until),
    })
}

/// Returns the alert of an incident. The host and the error are those of its last job, if that
/// still exists. Only the alert that opens the incident has the error.
fn incident(
    content: IncidentContent,
    due: &DueDelivery,
    alert: Option<JobAlert>,
) -> DeliveryContent {
    let is_open = due.kind == AlertKind::IncidentOpened;
    let error = alert.as_ref().and_then(|alert| alert.job.error_message.clone());
    let host = alert.map_or_else(|| "one host".to_owned(), |alert| alert.schedule.host);
    DeliveryContent::Incident(IncidentAlert {
        host,
        schedules: content.schedules,
        failing: content.failing,
        failures: content.failures,
        names: content.names,
        since: Timestamp::from_millis(content.since),
        until: content.until.map(Timestamp::from_millis),
        error: error.filter(|_| is_open),
    })
}
