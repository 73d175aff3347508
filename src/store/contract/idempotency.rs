//! Idempotency keys: a call with a key takes effect once, and a repeated call gets the same answer.
//!
//! A call reserves its key, runs, and stores its answer. The method that it runs marks the
//! reservation in the transaction of its effect (`WriteContext::once`), with the ids that the
//! answer is about. So if the process dies between effect and answer, a later call can answer from
//! these ids. A call that has lost its reservation to another one cannot take effect any more.
//!
//! Answers may contain secrets of users (a schedule's headers and body), so the adapters encrypt
//! them. An answer that cannot be decrypted counts as lost, as if the process had died before it
//! was stored.

use std::time::Duration;

use crate::domain::audit::Action;
use crate::domain::call::Idempotency;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;
use crate::store::Result;

/// The time after which a call without an answer loses its key to the next call.
pub(in crate::store) const UNFINISHED: Duration = Duration::from_secs(60);
/// The time for which an answer is kept, counted from the reservation.
pub const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// A request to reserve a key.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    /// The key, and the call that reserves it.
    pub idempotency: Idempotency,
    /// The SHA-256 of the request's body.
    pub request: [u8; 32],
}

/// The record of a call's effect, written in the transaction of the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The action that took effect.
    pub action: Action,
    /// The ids that the answer is about, in the order of the answer.
    pub objects: Vec<String>,
}

/// The result of reserving a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The key belongs to this call: run it.
    Yours,
    /// Another call with the same request is still running, or the account is deleted.
    Running,
    /// The key was used for another request.
    Reused,
    /// The call was answered with this text.
    Answered(String),
    /// The call took effect, but died or failed before it stored an answer. The key now belongs to
    /// this call, which must answer from the receipt.
    Unanswered(Receipt),
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The reservations and answers of calls with an idempotency key.
    pub trait IdempotencyStore: Send + Sync {
        /// Reserves a key unless it is in use. A repeated call by the same holder returns the same.
        async fn reserve(
            &self,
            account: AccountId,
            now: Timestamp,
            reservation: &Reservation,
        ) -> Result<Reserved>;

        /// Stores the answer of a call that still holds its key.
        async fn keep_answer(&self, account: AccountId, idempotency: Idempotency, answer: &str) -> Result<()>;

        /// Releases a key as if it had not been used, unless the call has taken effect.
        async fn release(&self, account: AccountId, idempotency: Idempotency) -> Result<()>;

        /// Deletes keys that were reserved before `before`, oldest first, at most `limit`. Returns
        /// their number.
        async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// A row of `idempotency_keys`.
pub(in crate::store) struct StoredKey {
    pub(in crate::store) request: Vec<u8>,
    pub(in crate::store) holder: Vec<u8>,
    pub(in crate::store) reserved_at: Timestamp,
    pub(in crate::store) receipt: Option<Receipt>,
    pub(in crate::store) answer: Option<String>,
}

impl StoredKey {
    /// Returns the state of the key at `now` for a new reservation; `None` if its time is over, so
    /// that the new call can take it.
    pub(in crate::store) fn judge(self, now: Timestamp, new: &Reservation) -> Option<Reserved> {
        let age = now.since(self.reserved_at);
        if age >= ANSWERS_KEPT {
            return None;
        }
        let is_over = age >= UNFINISHED;
        let is_own = self.holder == new.idempotency.holder.to_be_bytes();
        match (self.answer, self.receipt) {
            (None, None) if is_over => None,
            _ if self.request != new.request => Some(Reserved::Reused),
            (Some(answer), _) => Some(Reserved::Answered(answer)),
            (None, Some(receipt)) if is_over => Some(Reserved::Unanswered(receipt)),
            (None, None) if is_own => Some(Reserved::Yours),
            (None, _) => Some(Reserved::Running),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::call::IdempotencyKey;

    const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn stored(receipt: Option<Receipt>, answer: Option<&str>) -> StoredKey {
        StoredKey {
            request: vec![1; 32],
            holder: 7_u128.to_be_bytes().to_vec(),
            reserved_at: AT,
            receipt,
            answer: answer.map(str::to_owned),
        }
    }

    fn asked(holder: u128, request: u8) -> Reservation {
        Reservation {
            idempotency: Idempotency { key: IdempotencyKey([0; 16]), holder },
            request: [request; 32],
        }
    }

    #[test]
    fn a_key_is_judged_by_its_age_and_what_there_is_of_it() {
        let done = || Some(Receipt { action: Action::JobRetried, objects: vec!["x".into()] });
        let (soon, minute, day) = (AT, AT.plus(UNFINISHED), AT.plus(ANSWERS_KEPT));
        let answered = || Some(Reserved::Answered("a".into()));
        for (stored, now, new, expected) in [
            (stored(None, None), soon, asked(8, 1), Some(Reserved::Running)),
            (stored(None, None), soon, asked(7, 1), Some(Reserved::Yours)),
            (stored(None, None), soon, asked(8, 2), Some(Reserved::Reused)),
            (stored(None, None), minute, asked(8, 2), None),
            (stored(done(), None), soon, asked(7, 1), Some(Reserved::Running)),
            (stored(done(), None), minute, asked(8, 1), done().map(Reserved::Unanswered)),
            (stored(done(), None), minute, asked(8, 2), Some(Reserved::Reused)),
            (stored(done(), Some("a")), soon, asked(8, 1), answered()),
            (stored(None, Some("a")), minute, asked(8, 1), answered()),
            (stored(None, Some("a")), minute, asked(8, 2), Some(Reserved::Reused)),
            (stored(done(), Some("a")), day, asked(8, 1), None),
        ] {
            assert_eq!(stored.judge(now, &new), expected);
        }
    }
}
