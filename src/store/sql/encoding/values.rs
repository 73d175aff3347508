//! The stored form of domain values: ids as 16 bytes (`uuid` in PostgreSQL), instants as
//! milliseconds, enumerations by name, except for the status and the trigger of jobs, which are
//! numbers. Neither database has unsigned integers, so they are stored as signed ones.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
use sqlx::types::Uuid;
use sqlx::{Database, Decode, Encode, Type};

use super::{status_code, status_of, trigger_code, trigger_of};
use crate::domain::alert::AlertKind;
use crate::domain::audit::Action;
use crate::domain::call::IdempotencyKey;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::key::Scope;
use crate::domain::outcome::ErrorCode;
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::user::Role;
use crate::domain::{
    AccountId, AuditId, ChannelId, DeliveryId, EventId, IdentityId, IncidentId, InvitationId,
    JobId, KeyId, MembershipId, ResetId, ScheduleId, SessionId, SigningSecretId, Timestamp, UserId,
    VersionId,
};
use crate::store::ExecutorId;

/// Returns the smallest id of a job made at `at` or later.
pub(in crate::store) fn key_from(at: Timestamp) -> JobId {
    JobId::new(at, 0)
}

/// Returns the smallest id above those of all jobs made at `at` or earlier.
pub(in crate::store) fn key_above(at: Timestamp) -> JobId {
    key_from(Timestamp::from_millis(at.as_millis().saturating_add(1)))
}

/// Returns the smallest and the largest of these ids. As bounds of a query they tell PostgreSQL's
/// planner which partitions contain the ids, which an array does not.
pub(in crate::store) fn bounds(ids: impl IntoIterator<Item = JobId>) -> (JobId, JobId) {
    let (lowest, highest) = (JobId::from_bytes([0; 16]), JobId::from_bytes([u8::MAX; 16]));
    ids.into_iter().fold((highest, lowest), |(min, max), id| (min.min(id), max.max(id)))
}

/// Stores `$type` as `$stored`, with the two functions.
macro_rules! stored {
    ($type:ty as $stored:ty, $encode:expr, $decode:expr) => {
        impl<D: Database> Type<D> for $type
        where
            $stored: Type<D>,
        {
            fn type_info() -> D::TypeInfo {
                <$stored as Type<D>>::type_info()
            }

            fn compatible(ty: &D::TypeInfo) -> bool {
                <$stored as Type<D>>::compatible(ty)
            }
        }

        impl PgHasArrayType for $type {
            fn array_type_info() -> PgTypeInfo {
                <$stored as PgHasArrayType>::array_type_info()
            }
        }

        impl<'q, D: Database> Encode<'q, D> for $type
        where
            $stored: Encode<'q, D>,
        {
            fn encode_by_ref(&self, buffer: &mut D::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
                let stored: $stored = $encode(*self);
                Encode::<D>::encode(stored, buffer)
            }
        }

        impl<'r, D: Database> Decode<'r, D> for $type
        where
            $stored: Decode<'r, D>,
        {
            fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
                let stored = <$stored as Decode<D>>::decode(value)?;
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
        stored!($name as String, |value: Self| value.as_str().to_owned(), |text| {
            text.parse().map_err(|_| concat!("unknown ", stringify!($name)).into())
        });
    )*};
}

/// The id of a row of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct RowId(pub(in crate::store) [u8; 16]);

stored!(RowId as Uuid, |id: Self| Uuid::from_bytes(id.0), |id| Ok(Self(id.into_bytes())));
stored_ids!(AccountId, AuditId, KeyId, ScheduleId, VersionId, JobId);
stored_ids!(ChannelId, DeliveryId, EventId, IncidentId);
stored_ids!(UserId, IdentityId, MembershipId, InvitationId, SessionId, ResetId, SigningSecretId);
stored_names!(Action, HttpMethod, OverlapPolicy, CatchUpPolicy, SkipReason, ErrorCode, Scope, Role);
stored_names!(AlertKind, ChannelType, NotifyOn);
stored!(Timestamp as i64, |at: Self| at.as_millis(), |ms| Ok(Self::from_millis(ms)));
stored!(ShardId as i32, |shard: Self| i32::from(shard.0), |shard| Ok(Self(shard.try_into()?)));
stored!(HostKey as i64, |host: Self| host.0.cast_signed(), |host| Ok(Self(host.cast_unsigned())));
stored!(IdempotencyKey as Uuid, |key: Self| Uuid::from_bytes(key.0), |id| Ok(Self(
    id.into_bytes()
)));
stored!(ExecutorId as Uuid, |id: Self| Uuid::from_u128(id.0), |uuid| Ok(Self(uuid.as_u128())));
stored!(JobStatus as i16, |status: Self| i16::from(status_code(status)), |code| {
    let status = u8::try_from(code).ok().and_then(status_of);
    status.ok_or_else(|| format!("unknown status {code}").into())
});
stored!(Trigger as i16, |trigger: Self| i16::from(trigger_code(trigger)), |code| {
    let trigger = u8::try_from(code).ok().and_then(trigger_of);
    trigger.ok_or_else(|| format!("unknown trigger {code}").into())
});

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
