//! How domain values are stored: ids as uuids, instants as milliseconds, enumerations by name, but
//! for the two of the `jobs` table. PostgreSQL has no unsigned numbers.
//!
//! Batches go to PostgreSQL as one array a column, which the statement takes apart with `unnest`,
//! so that a statement's text does not depend on the number of rows.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::types::Uuid;
use sqlx::{Decode, Encode, Postgres, Type};

use crate::domain::alert::AlertKind;
use crate::domain::audit::Action;
use crate::domain::call::OnceKey;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::key::Scope;
use crate::domain::outcome::ErrorCode;
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::user::Role;
use crate::domain::{
    AccountId, AuditId, ChannelId, DeliveryId, EventId, IncidentId, InvitationId, JobId, KeyId,
    MembershipId, ResetId, ScheduleId, SessionId, SigningSecretId, Timestamp, UserId, VersionId,
};
use crate::store::ExecutorId;
use crate::store::stored::{status_code, status_of, trigger_code, trigger_of};

pub(super) use crate::store::rows::number;

/// Stores `$type` as `$stored`, by the two functions.
macro_rules! stored {
    ($type:ty as $stored:ty, $encode:expr, $decode:expr) => {
        impl Type<Postgres> for $type {
            fn type_info() -> PgTypeInfo {
                <$stored as Type<Postgres>>::type_info()
            }

            fn compatible(ty: &PgTypeInfo) -> bool {
                <$stored as Type<Postgres>>::compatible(ty)
            }
        }

        impl PgHasArrayType for $type {
            fn array_type_info() -> PgTypeInfo {
                <$stored as PgHasArrayType>::array_type_info()
            }
        }

        impl Encode<'_, Postgres> for $type {
            fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                let stored = $encode(*self);
                Encode::<Postgres>::encode(stored, buffer)
            }
        }

        impl<'r> Decode<'r, Postgres> for $type {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let stored = <$stored as Decode<Postgres>>::decode(value)?;
                let decode: fn($stored) -> Result<Self, BoxDynError> = $decode;
                decode(stored)
            }
        }
    };
}

macro_rules! stored_ids {
    ($($id:ident),*) => {$(
        stored!($id as Uuid, |id: Self| Uuid::from_bytes(id.to_bytes()), |uuid| {
            Ok(Self::from_bytes(uuid.into_bytes()))
        });
    )*};
}

macro_rules! stored_names {
    ($($name:ident),*) => {$(
        stored!($name as String, |value: Self| value.as_str(), |text| {
            text.parse().map_err(|_| concat!("unknown ", stringify!($name)).into())
        });
    )*};
}

stored_ids!(AccountId, AuditId, KeyId, ScheduleId, VersionId, JobId);
stored_ids!(ChannelId, DeliveryId, EventId, IncidentId);
stored_ids!(UserId, MembershipId, InvitationId, SessionId, ResetId, SigningSecretId);
stored_names!(Action, HttpMethod, OverlapPolicy, CatchUpPolicy, SkipReason, ErrorCode, Scope, Role);
stored_names!(AlertKind, ChannelType, NotifyOn);
stored!(Timestamp as i64, |at: Self| at.as_millis(), |ms| Ok(Self::from_millis(ms)));
stored!(ShardId as i32, |shard: Self| i32::from(shard.0), |shard| Ok(Self(shard.try_into()?)));
stored!(HostKey as i64, |host: Self| host.0.cast_signed(), |host| Ok(Self(host.cast_unsigned())));
stored!(OnceKey as Uuid, |key: Self| Uuid::from_bytes(key.0), |id| Ok(Self(id.into_bytes())));
stored!(ExecutorId as Uuid, |id: Self| Uuid::from_u128(id.0), |uuid| Ok(Self(uuid.as_u128())));
stored!(JobStatus as i16, |status: Self| i16::from(status_code(status)), |code| {
    let status = u8::try_from(code).ok().and_then(status_of);
    status.ok_or_else(|| format!("unknown status {code}").into())
});
stored!(Trigger as i16, |trigger: Self| i16::from(trigger_code(trigger)), |code| {
    let trigger = u8::try_from(code).ok().and_then(trigger_of);
    trigger.ok_or_else(|| format!("unknown trigger {code}").into())
});

/// The smallest id of a job made at `at` or later.
pub(super) fn key_from(at: Timestamp) -> JobId {
    JobId::new(at, 0)
}

/// The smallest id above that of every job made at `at` or earlier.
pub(super) fn key_above(at: Timestamp) -> JobId {
    key_from(Timestamp::from_millis(at.as_millis().saturating_add(1)))
}

/// The smallest and the largest of these ids: bounds that tell the planner which partitions hold
/// them, which an array does not.
pub(super) fn bounds(ids: impl IntoIterator<Item = JobId>) -> (JobId, JobId) {
    let (lowest, highest) = (JobId::from_bytes([0; 16]), JobId::from_bytes([u8::MAX; 16]));
    ids.into_iter().fold((highest, lowest), |(min, max), id| (min.min(id), max.max(id)))
}

/// A column of rows, as an array.
pub(super) fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// Numbers of rows as the contract counts them.
pub(super) fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_bound_the_ids_of_an_instant() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        assert!(key_from(at) <= JobId::new(at, 0));
        assert!(JobId::new(at, u128::MAX) < key_above(at));
        let next = Timestamp::from_millis(at.as_millis() + 1);
        assert!(key_above(at) <= JobId::new(next, 0));
    }

    #[test]
    fn bounds_hold_all_ids() {
        let ids = [5, 2, 9].map(|n| JobId::new(Timestamp::from_millis(n), 1));
        assert_eq!(bounds(ids), (ids[1], ids[2]));
        let (min, max) = bounds([]);
        assert!(min > max, "nothing lies between");
    }
}
