//! Finds the row of a batch that cannot be read back.

use crate::store::StoreErrorKind;
use crate::store::sql::error::{SqlError, SqlResult};

/// The parts of a batch that are still to be read. One result has all rows of a part, so a damaged
/// row makes all of it unreadable. Then each half is read by itself, until the row is alone.
pub(in crate::store::sqlite) struct Bisection<'b, I>(Vec<&'b [I]>);

impl<'b, I> Bisection<'b, I> {
    /// Divides a batch into parts of at most `at_once` rows.
    pub(in crate::store::sqlite) fn of(batch: &'b [I], at_once: usize) -> Self {
        Self(batch.chunks(at_once).rev().collect())
    }

    /// Returns the next part to read.
    pub(in crate::store::sqlite) fn next(&mut self) -> Option<&'b [I]> {
        self.0.pop()
    }

    /// Handles a part that could not be read. Its halves are read next. If the part is a single
    /// row, returns that row and the reason. Returns failures other than damage as errors.
    pub(in crate::store::sqlite) fn halve(
        &mut self,
        part: &'b [I],
        error: SqlError,
    ) -> SqlResult<Option<(&'b I, String)>> {
        if error.kind != StoreErrorKind::Corrupt {
            return Err(error);
        }
        if let [one] = part {
            return Ok(Some((one, error.message)));
        }
        let (first, second) = part.split_at(part.len() / 2);
        self.0.extend([second, first]);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_damaged_rows_are_found_and_the_others_read_in_order() {
        let batch = [1, 2, 30, 4, 5, 6, 70, 8, 9];
        let (mut read, mut damaged) = (Vec::<i32>::new(), Vec::new());
        let mut parts = Bisection::of(&batch, 4);
        while let Some(part) = parts.next() {
            if part.iter().all(|row| *row < 10) {
                read.extend(part);
                continue;
            }
            let error = SqlError::new(StoreErrorKind::Corrupt, "damaged");
            damaged.extend(parts.halve(part, error).expect("damage"));
        }
        assert_eq!(read, [1, 2, 4, 5, 6, 8, 9]);
        assert_eq!(damaged, [(&30, "damaged".to_owned()), (&70, "damaged".to_owned())]);
        let away = SqlError::new(StoreErrorKind::Unavailable, "away");
        assert!(parts.halve(&batch, away).is_err());
    }
}
