//! Parameters of PostgreSQL's batches: one array a column, which the statement takes apart with
//! `unnest`, so that its text does not depend on the number of rows.

use crate::domain::{JobId, Timestamp};

pub(super) use crate::store::rows::number;

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
