//! Ids: 16 bytes, ordered by creation time. The text form is a prefix for the kind and 26 letters
//! and digits.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use super::Timestamp;

/// The error for a text that is not an id of the expected kind.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an id of this kind")]
pub struct InvalidId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// The prefix of the text form.
            pub const PREFIX: &'static str = $prefix;

            /// Returns an id with the time `at` and the lower 80 bits of `random`.
            pub fn new(at: Timestamp, random: u128) -> Self {
                let ms = u64::try_from(at.as_millis()).unwrap_or(0);
                Self(Ulid::from_parts(ms, random))
            }

            /// Returns the 16 bytes for a store; they sort as the ids do.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// Returns the id with these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }

            /// Returns the time in its leading 48 bits.
            pub fn timestamp(self) -> Timestamp {
                Timestamp::from_millis(i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; ulid::ULID_LEN];
                f.write_str($prefix)?;
                f.write_str(self.0.array_to_str(&mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts only the form that `Display` writes, so that an id has one spelling.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let letters = text.strip_prefix($prefix).ok_or(InvalidId)?;
                let id = Self(Ulid::from_string(letters).map_err(|_| InvalidId)?);
                if id.to_string() == text { Ok(id) } else { Err(InvalidId) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

id!(
    /// An account: the owner of all other objects.
    AccountId,
    "acc_"
);
id!(
    /// A schedule.
    ScheduleId,
    "sch_"
);
id!(
    /// One immutable version of a schedule's definition.
    VersionId,
    "ver_"
);
id!(
    /// A job. Its time part is the job's `scheduledRunAtUtc`, so ids sort as run times do.
    JobId,
    "job_"
);
id!(
    /// An API key; the id itself is not secret.
    KeyId,
    "key_"
);

id!(
    /// A user: a person who signs in.
    UserId,
    "usr_"
);
id!(
    /// The membership of a user in an account.
    MembershipId,
    "mem_"
);
id!(
    /// The link between a user and a person at an OpenID provider.
    IdentityId,
    "idn_"
);
id!(
    /// An invitation to an account; the id itself is not secret.
    InvitationId,
    "inv_"
);
id!(
    /// A session of a user; it is not the token in the browser's cookie.
    SessionId,
    "ses_"
);
id!(
    /// A request to reset a forgotten password.
    ResetId,
    "rst_"
);
id!(
    /// An entry of the audit log. Its time part is the time of the change.
    AuditId,
    "aud_"
);

id!(
    /// A secret with which an account's requests are signed; the id itself is not secret.
    SigningSecretId,
    "sgn_"
);

id!(
    /// A notification channel.
    ChannelId,
    "ch_"
);
id!(
    /// An event that alerts report. All deliveries of one event, and all tries of a delivery, carry
    /// the same id, so that a receiver recognizes duplicates.
    EventId,
    "evt_"
);
id!(
    /// A test request: a request that is sent once, without a job.
    TestRequestId,
    "tst_"
);
id!(
    /// The delivery of one alert to one channel.
    DeliveryId,
    "dlv_"
);
id!(
    /// An incident: one failing host, from the view of one channel.
    IncidentId,
    "inc_"
);

/// Returns the first `N` bytes of a hash of these parts.
fn hashed<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}

/// Returns the random part of an id that is derived from these parts.
fn fixed(parts: &[&[u8]]) -> u128 {
    let mut random = [0; 16];
    random[6..].copy_from_slice(&hashed::<10>(parts));
    u128::from_be_bytes(random)
}

/// Returns the id with `position` in the highest bits of its random part, so that ids of the same
/// instant sort by it.
fn with_position(id: Ulid, position: usize) -> Ulid {
    const POSITION_AT: u32 = 64;
    let position = u16::try_from(position).unwrap_or(u16::MAX);
    let random = id.random() & ((1 << POSITION_AT) - 1);
    Ulid::from_parts(id.timestamp_ms(), u128::from(position) << POSITION_AT | random)
}

impl EventId {
    /// Returns the id of an event about `object` (a job, an incident, a channel's minute) that
    /// happened at `at`. It is derived from these values, so a retried transaction creates the same
    /// id.
    pub fn of(object: [u8; 16], kind: &str, at: Timestamp) -> Self {
        Self::new(at, fixed(&[b"event", &object, kind.as_bytes()]))
    }

    /// Returns the id of the event at this position in a transaction: ids sort in the order of
    /// events.
    pub fn at_position(self, position: usize) -> Self {
        Self(with_position(self.0, position))
    }
}

impl DeliveryId {
    /// Returns the id of the one delivery of an event to a channel, planned at `at`. Without a
    /// channel, it is the id of the record of that fact.
    pub fn of(event: EventId, channel: Option<ChannelId>, at: Timestamp) -> Self {
        let channel = channel.map_or([0; 16], ChannelId::to_bytes);
        Self::new(at, fixed(&[b"delivery", &event.to_bytes(), &channel]))
    }

    /// Returns the id of the delivery at this position among those planned together: ids sort in
    /// the order of sending.
    pub fn at_position(self, position: usize) -> Self {
        Self(with_position(self.0, position))
    }
}

impl IncidentId {
    /// Returns the id of the incident that an event begins for a channel.
    pub fn of(event: EventId, channel: ChannelId, at: Timestamp) -> Self {
        Self::new(at, fixed(&[b"incident", &event.to_bytes(), &channel.to_bytes()]))
    }

    /// Returns the key of a schedule's row in this incident.
    pub fn member(self, schedule: ScheduleId) -> [u8; 16] {
        hashed(&[b"member", &self.to_bytes(), &schedule.to_bytes()])
    }
}

impl SigningSecretId {
    /// Returns the id of an account's first secret. It is the same for every caller that creates
    /// it.
    pub fn first_of(account: AccountId) -> Self {
        Self(account.0)
    }
}

impl MembershipId {
    /// Returns the id of the one membership that a user can have in an account.
    pub fn of(account: AccountId, user: UserId) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"membership");
        hash.update(account.to_bytes());
        hash.update(user.to_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self::from_bytes(bytes)
    }
}

impl IdentityId {
    /// Returns the id of the one identity that this subject of this provider can have.
    pub fn of(issuer: &str, subject: &str) -> Self {
        Self::from_bytes(hashed(&[b"identity", issuer.as_bytes(), subject.as_bytes()]))
    }
}

impl AuditId {
    /// Returns the id of a further entry of the same change; 0 is this one.
    pub fn nth(self, n: usize) -> Self {
        let random = self.0.random().wrapping_add(n as u128);
        Self(Ulid::from_parts(self.0.timestamp_ms(), random))
    }
}

impl JobId {
    /// Returns the id of the one job that a tick of a schedule can have (TICK-1). It is the same
    /// for every replica that fires the tick, and ids sort by tick.
    ///
    /// The lowest bits of the schedule's id, from which its shard is derived, follow the tick in
    /// reverse order. So if the number of shards is a power of two, the jobs of one tick and one
    /// shard, which are written together, are neighbours in an index.
    pub fn of_tick(schedule: ScheduleId, tick: Timestamp) -> Self {
        let schedule = schedule.to_bytes();
        let mut hash = Sha256::new();
        hash.update(b"tick");
        hash.update(schedule);
        hash.update(tick.as_millis().to_be_bytes());
        let digest = hash.finalize();
        let mut random = [0; 16];
        random[6] = schedule[15].reverse_bits();
        random[7] = schedule[14].reverse_bits();
        random[8..].copy_from_slice(&digest[..8]);
        Self::new(tick, u128::from_be_bytes(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::shard::ShardId;

    #[test]
    fn one_spelling() {
        let id = ScheduleId::new(Timestamp::from_millis(1_700_000_000_000), 7);
        let text = id.to_string();
        assert_eq!(text, "sch_01HF7YAT000000000000000007");
        assert_eq!(text.parse(), Ok(id));
        for other in [
            text.to_lowercase(),
            text.replace("sch_", "job_"),
            text.replace('0', "O"),
            format!("{text}0"),
            String::new(),
            "sch_8ZZZZZZZZZZZZZZZZZZZZZZZZZ".into(),
            "sch_Ω".into(),
        ] {
            assert_eq!(other.parse::<ScheduleId>(), Err(InvalidId), "{other}");
        }
    }

    #[test]
    fn the_job_of_a_tick_is_fixed_and_ordered_by_it() {
        let schedule = ScheduleId::new(Timestamp::from_millis(5), 99);
        let tick = Timestamp::from_millis(1_700_000_000_000);
        let later = Timestamp::from_millis(1_700_000_060_000);
        let job = JobId::of_tick(schedule, tick);
        assert_eq!(job, JobId::of_tick(schedule, tick));
        assert!(job < JobId::of_tick(schedule, later));
        assert_eq!(job.timestamp(), tick);
        assert_ne!(job, JobId::of_tick(ScheduleId::new(Timestamp::from_millis(5), 98), tick));
    }

    #[test]
    fn the_jobs_of_a_tick_of_a_shard_are_neighbours() {
        let random = crate::runtime::Random::seeded(1);
        let tick = Timestamp::from_millis(1_700_000_000_000);
        for shards in [1, 8, 64, 1024] {
            let mut jobs: Vec<(JobId, ShardId)> = (0..4_096)
                .map(|_| ScheduleId::new(Timestamp::from_millis(5), random.bits()))
                .map(|id| (JobId::of_tick(id, tick), ShardId::of(id, shards)))
                .collect();
            jobs.sort_unstable();
            jobs.dedup_by_key(|(_, shard)| *shard);
            let runs = jobs.len();
            jobs.sort_unstable_by_key(|(_, shard)| *shard);
            jobs.dedup_by_key(|(_, shard)| *shard);
            assert_eq!(runs, jobs.len(), "{shards} shards");
        }
    }
}
