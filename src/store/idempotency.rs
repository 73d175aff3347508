//! Calls that carry an idempotency key: each takes effect once, and is answered the same again.
//!
//! A call reserves its key, runs, and leaves its answer. The changing method that it runs marks
//! the reservation in the transaction of its effect (`Write::once`), with the ids that the answer
//! is about: so a process that dies between effect and answer leaves enough to answer from, and a
//! call that has lost its reservation to another one cannot take effect any more.
//!
//! Answers can hold what users keep secret (a schedule's headers and body): the adapters seal them.
//! One that cannot be opened is lost, as if the process had died before it was kept.

use std::time::Duration;

use super::Result;
use crate::domain::audit::Action;
use crate::domain::call::Once;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;

/// How long a call that has not been answered keeps its key to itself.
pub(in crate::store) const UNFINISHED: Duration = Duration::from_secs(60);
/// How long an answer is kept, from the reservation on.
pub const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// A key to be reserved.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    /// Which, and by whom.
    pub once: Once,
    /// The SHA-256 of the request's body.
    pub request: [u8; 32],
}

/// What a call took effect on, from the transaction of its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What was done.
    pub action: Action,
    /// The ids that the answer is about, in its order.
    pub objects: Vec<String>,
}

/// What there is of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is this call's: run it.
    Yours,
    /// Another call with the same request still runs, or the account is gone.
    Running,
    /// It was used for another request.
    Reused,
    /// It was answered like this.
    Answered(String),
    /// It took effect, and whoever ran it died or failed before there was an answer. It is this
    /// call's now, to be answered from the receipt.
    Unanswered(Receipt),
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Calls that take effect once.
    pub trait IdempotencyStore: Send + Sync {
        /// Reserves a key unless it is in use. Again by the same holder: the same.
        async fn reserve(
            &self,
            account: AccountId,
            now: Timestamp,
            reservation: &Reservation,
        ) -> Result<Reserved>;

        /// Keeps the answer of a call that still holds its key.
        async fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> Result<()>;

        /// Gives a key back, as if it had not been used, unless the call has taken effect.
        async fn release(&self, account: AccountId, once: Once) -> Result<()>;

        /// Removes keys that were reserved before `before`, oldest first, at most `limit`. Returns how
        /// many.
        async fn prune_answers(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// Reads a key ($1) of an account ($2).
pub(in crate::store) const READ: &str =
    "SELECT request, holder, reserved_at, action, objects, answer FROM idempotency_keys
     WHERE id = $1 AND account_id = $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)";

/// A key as it is stored.
pub(in crate::store) struct StoredKey {
    pub(in crate::store) request: Vec<u8>,
    pub(in crate::store) holder: Vec<u8>,
    pub(in crate::store) reserved_at: Timestamp,
    pub(in crate::store) receipt: Option<Receipt>,
    pub(in crate::store) answer: Option<String>,
}

impl StoredKey {
    /// What there is of the key at `now`; nothing if its time is over, so that it can be taken.
    pub(in crate::store) fn judge(self, now: Timestamp, new: &Reservation) -> Option<Reserved> {
        let age = now.since(self.reserved_at);
        if age >= ANSWERS_KEPT {
            return None;
        }
        let is_over = age >= UNFINISHED;
        let is_own = self.holder == new.once.holder.to_be_bytes();
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

/// Why a call that took too long has no effect.
pub(in crate::store) const TAKEN_OVER: &str =
    "the call has lost its idempotency key to another one";

/// The ids of a receipt as they are stored.
pub(in crate::store) fn objects_text(objects: &[String]) -> String {
    serde_json::to_string(objects).expect("texts always have a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::call::OnceKey;

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
        Reservation { once: Once { key: OnceKey([0; 16]), holder }, request: [request; 32] }
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
