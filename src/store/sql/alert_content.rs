//! Deliveries that are claimed: as they are read, and what they say.

use serde::{Deserialize, Serialize};

use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{DigestAlert, IncidentAlert, JobAlert};
use crate::domain::alert::delivery::{DeliveryError, TRIES};
use crate::domain::job::Job;
use crate::domain::plan::ChannelType;
use crate::domain::schedule::Definition;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, JobId, Timestamp, VersionId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::rows::{StoreRow, read_rows};
use crate::store::{ClaimedDelivery, DeliveryContent};

/// A delivery whose try is due, locked.
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
    /// When the try began that nobody has ended.
    pub(in crate::store) lost_since: Option<Timestamp>,
    /// The channel's type, encrypted configuration and whether it is verified; absent if it is gone.
    pub(in crate::store) to: Option<(ChannelType, String, bool)>,
    /// Which configuration that is.
    pub(in crate::store) revision: i64,
}

/// The start of the try that nobody has ended.
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
    /// Why it cannot be tried, if it cannot.
    pub(in crate::store) fn hopeless(&self) -> Option<(DeliveryError, &'static str)> {
        match &self.to {
            None => {
                Some((DeliveryError::ChannelDeleted, "the channel was deleted before it was told"))
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

/// A job that a delivery tells of, with the version it was made with; its headers are encrypted.
#[derive(Clone)]
pub(in crate::store) struct JobContent {
    version: VersionId,
    pub(in crate::store) job: Job,
    definition: Definition,
}

/// What an incident's alert says, but for the host and the error, which the job tells.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::store) struct IncidentContent {
    pub(in crate::store) schedules: u32,
    pub(in crate::store) failing: u32,
    pub(in crate::store) failures: u32,
    pub(in crate::store) names: Vec<String>,
    pub(in crate::store) since: i64,
    pub(in crate::store) until: Option<i64>,
}

/// What a digest says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::store) struct DigestContent {
    /// Alerts by kind.
    pub(in crate::store) counts: Vec<(String, u32)>,
    pub(in crate::store) names: Vec<String>,
    pub(in crate::store) since: i64,
    pub(in crate::store) until: i64,
}

/// A claimed delivery as it was read: the channel's configuration and the job's headers are encrypted.
pub(in crate::store) struct SealedDelivery {
    pub(in crate::store) due: DueDelivery,
    pub(in crate::store) channel_type: ChannelType,
    pub(in crate::store) config: String,
    pub(in crate::store) job: Option<JobContent>,
    /// When it was claimed.
    pub(in crate::store) now: Timestamp,
}

impl SealedDelivery {
    /// The delivery as the notifier gets it.
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

/// The host and the error are those of the last job, as long as it is there.
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
