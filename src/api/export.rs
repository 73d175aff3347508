//! The export of an account's data as lines of JSON. A line has the form of the API's record, if
//! there is one for its kind.

use serde::Serialize;
use serde_json::Value;

use super::audit_log::AuditRecord;
use super::channels::ChannelRecord;
use super::deliveries::DeliveryRecord;
use super::jobs::JobWithAttempts;
use super::schedules::{ScheduleRecord, SkipRecord};
use crate::accounts::Exported;
use crate::domain::channel::Channel;
use crate::domain::key::KeyRecord;
use crate::domain::schedule::{PauseNote, Schedule, UnreadableFields};
use crate::domain::{ChannelId, ScheduleId, Timestamp, VersionId};
use crate::store::{
    Account, AccountMember, AttachedChannel, Invitation, KnownSecret, StoredChannel, StoredMonth,
    StoredPreference, StoredVersion,
};

/// One line: the kind of its record, and the record.
#[derive(Serialize)]
struct ExportLine<T> {
    kind: &'static str,
    #[serde(flatten)]
    record: T,
    /// The fields that are stored but cannot be decrypted. They are `null` in the record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<&'static str>,
}

/// Returns one line of JSON, without the line break: an object whose `kind` names the type of its
/// record.
pub fn line(exported: Exported) -> String {
    match exported {
        Exported::Account(account) => text("account", AccountLine::from(account)),
        Exported::Member(member) => text("member", MemberLine::from(member)),
        Exported::Invitation(invitation) => text("invitation", InvitationLine::from(invitation)),
        Exported::Key(key) => text("key", KeyLine::from(key)),
        Exported::SigningSecret(secret) => {
            let lost = secret.secret.is_none().then_some("secret");
            partly("signing_secret", lost.into_iter().collect(), SecretLine::from(secret))
        }
        Exported::Channel(stored) => {
            let channel = ChannelLine::from(*stored);
            let lost = channel.config.is_none().then_some("config");
            partly("channel", lost.into_iter().collect(), channel)
        }
        Exported::Preference(schedule, stored) => {
            text("preference", PreferenceLine::new(schedule, *stored))
        }
        Exported::Delivery(delivery) => text("delivery", DeliveryRecord::from(*delivery)),
        Exported::Month(month) => text("month", MonthLine::from(month)),
        Exported::Schedule(schedule) => {
            partly("schedule", fields(schedule.unreadable), ScheduleLine::from(*schedule))
        }
        Exported::Version(version) => {
            partly("version", fields(version.unreadable), VersionLine::from(*version))
        }
        Exported::Job(job, attempts) => {
            partly("job", fields(job.unreadable), JobWithAttempts::new(*job, attempts))
        }
        Exported::Skip(stored) => {
            text("skip", SkipLine { schedule_id: stored.schedule, skip: stored.skip.into() })
        }
        Exported::Audit(entry) => text("audit", AuditRecord::from(entry)),
    }
}

fn text(kind: &'static str, record: impl Serialize) -> String {
    partly(kind, Vec::new(), record)
}

fn partly(kind: &'static str, unreadable: Vec<&'static str>, record: impl Serialize) -> String {
    let line = ExportLine { kind, record, unreadable };
    serde_json::to_string(&line).expect("a record is made of texts and numbers")
}

fn fields(UnreadableFields { body, headers }: UnreadableFields) -> Vec<&'static str> {
    [(body, "body"), (headers, "headers")].iter().filter(|one| one.0).map(|one| one.1).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountLine {
    id: String,
    name: String,
    plan: String,
    created_at: Timestamp,
    suspended_at: Option<Timestamp>,
}

impl From<Account> for AccountLine {
    fn from(account: Account) -> Self {
        let Account { id, name, created_at, plan, suspended_at } = account;
        Self { id: id.to_string(), name, plan, created_at, suspended_at }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberLine {
    user_id: String,
    email: String,
    role: &'static str,
    since: Timestamp,
}

impl From<AccountMember> for MemberLine {
    fn from(member: AccountMember) -> Self {
        let AccountMember { user, email, role, since } = member;
        Self { user_id: user.to_string(), email: email.to_string(), role: role.as_str(), since }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvitationLine {
    id: String,
    email: String,
    role: &'static str,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl From<Invitation> for InvitationLine {
    fn from(invitation: Invitation) -> Self {
        let Invitation { id, email, role, created_at, expires_at } = invitation;
        let (id, email) = (id.to_string(), email.to_string());
        Self { id, email, role: role.as_str(), created_at, expires_at }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyLine {
    id: String,
    name: String,
    scope: &'static str,
    created_at: Timestamp,
    created_by: Option<String>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl From<KeyRecord> for KeyLine {
    fn from(key: KeyRecord) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name,
            scope: key.scope.as_str(),
            created_at: key.created_at,
            created_by: key.created_by,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// A schedule, with the field that only the dashboard shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleLine {
    #[serde(flatten)]
    record: ScheduleRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseLine>,
}

/// The note with which a schedule was paused.
#[derive(Serialize)]
struct PauseLine {
    note: String,
    author: String,
    at: Timestamp,
}

impl From<Schedule> for ScheduleLine {
    fn from(mut schedule: Schedule) -> Self {
        let pause = schedule.pause.take();
        let pause =
            pause.map(|PauseNote { text, author, at }| PauseLine { note: text, author, at });
        Self { record: schedule.into(), pause }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretLine {
    id: String,
    secret: Option<String>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl From<KnownSecret> for SecretLine {
    fn from(known: KnownSecret) -> Self {
        let KnownSecret { id, secret, created_at, expires_at } = known;
        let secret = secret.map(|secret| secret.reveal().to_string());
        Self { id: id.to_string(), secret, created_at, expires_at }
    }
}

#[derive(Serialize)]
struct ChannelLine {
    #[serde(flatten)]
    channel: ChannelRecord,
    config: Option<Value>,
}

impl From<StoredChannel> for ChannelLine {
    fn from(stored: StoredChannel) -> Self {
        let config = stored.config.and_then(|config| serde_json::from_str(config.reveal()).ok());
        Self { channel: stored.channel.into(), config }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PreferenceLine {
    schedule_id: ScheduleId,
    notify_on: &'static str,
    /// Includes channels that are no longer verified.
    channels: Vec<AttachedLine>,
    /// The label of a channel that was deleted after the preference was set.
    detached: Option<String>,
    failure_threshold: u32,
    notify_on_recovery: bool,
    repeat_every_minutes: Option<u32>,
}

impl PreferenceLine {
    fn new(schedule_id: ScheduleId, stored: StoredPreference) -> Self {
        let StoredPreference { policy, channels, detached } = stored;
        Self {
            schedule_id,
            notify_on: policy.notify_on.as_str(),
            channels: channels.into_iter().map(AttachedLine::from).collect(),
            detached,
            failure_threshold: policy.failure_threshold,
            notify_on_recovery: policy.notify_on_recovery,
            repeat_every_minutes: policy.repeat_every_minutes,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachedLine {
    channel_id: ChannelId,
    #[serde(rename = "type")]
    kind: &'static str,
    label: String,
    verified: bool,
    trouble: Option<String>,
}

impl From<AttachedChannel> for AttachedLine {
    fn from(attached: AttachedChannel) -> Self {
        let AttachedChannel { channel, trouble } = attached;
        let Channel { id, kind, label, verified, .. } = channel;
        Self { channel_id: id, kind: kind.as_str(), label, verified, trouble }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MonthLine {
    /// For example `2026-11`.
    month: String,
    jobs: u64,
    quota_exhausted_at: Option<Timestamp>,
}

impl From<StoredMonth> for MonthLine {
    fn from(stored: StoredMonth) -> Self {
        let StoredMonth { month, reserved, exhausted_at } = stored;
        let month = format!("{:04}-{:02}", month / 100, month % 100);
        Self { month, jobs: reserved, quota_exhausted_at: exhausted_at }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionLine {
    id: VersionId,
    schedule_id: ScheduleId,
    cron_expression: String,
    timezone: String,
    endpoint: String,
    http_method: &'static str,
    body: Option<String>,
    headers: Option<String>,
    max_retries: u8,
    timeout_seconds: u16,
    expected_status_codes: Option<String>,
    sign_requests: bool,
    created_at: Timestamp,
    retired_at: Option<Timestamp>,
}

impl From<StoredVersion> for VersionLine {
    fn from(version: StoredVersion) -> Self {
        let StoredVersion { id, schedule, definition, created_at, retired_at, .. } = version;
        Self {
            id,
            schedule_id: schedule,
            cron_expression: definition.cron_expression,
            timezone: definition.timezone,
            endpoint: definition.endpoint,
            http_method: definition.http_method.as_str(),
            body: definition.body,
            headers: definition.headers,
            max_retries: definition.max_retries,
            timeout_seconds: definition.timeout_seconds,
            expected_status_codes: definition.expected_status_codes,
            sign_requests: definition.sign_requests,
            created_at,
            retired_at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SkipLine {
    schedule_id: ScheduleId,
    #[serde(flatten)]
    skip: SkipRecord,
}
