//! A set of small numbers, one bit each: the values that a field of an expression allows.

/// Numbers from 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NumberSet(u64);

impl NumberSet {
    /// Returns `first`, `first + step`, … up to `last` at most.
    pub(super) fn stepped(first: u32, last: u32, step: u32) -> Self {
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Self((first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value))
    }

    /// Returns all numbers of `first..=last`.
    pub(super) fn range(first: u32, last: u32) -> Self {
        Self::stepped(first, last, 1)
    }

    /// Returns the union.
    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    pub(super) fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set with `from` replaced by `to`.
    pub(super) fn renamed(self, from: u32, to: u32) -> Self {
        if self.contains(from) { Self(self.0 & !(1 << from) | 1 << to) } else { self }
    }

    pub(super) fn contains(self, value: u32) -> bool {
        self.0 >> value & 1 == 1
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the number of elements below `value` (at most 63).
    pub(super) fn len_below(self, value: u32) -> u32 {
        (self.0 & ((1 << value) - 1)).count_ones()
    }

    /// Returns the smallest number; 64 if the set is empty.
    pub(super) fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Returns the largest number; 0 if the set is empty.
    pub(super) fn last(self) -> u32 {
        63_u32.saturating_sub(self.0.leading_zeros())
    }

    /// Returns its numbers, smallest first.
    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |&value| self.contains(value))
    }

    /// Returns the days of a month (1 to 31 and some more) that fall on these weekdays (0 is
    /// Sunday) if the first of the month falls on `weekday_of_first`.
    pub(super) fn on_days(self, weekday_of_first: u32) -> Self {
        /// Multiplying seven bits by this repeats them for seven weeks.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35 | 1 << 42;
        Self(((self.0 * WEEKS) >> weekday_of_first) << 1)
    }

    /// Returns the distance between its numbers, if there are at least three and they are evenly
    /// spaced.
    pub(super) fn spacing(self) -> Option<u32> {
        let second = self.iter().nth(1)?;
        let step = second - self.first();
        let even = self == Self::stepped(self.first(), self.last(), step);
        (even && self.len() >= 3).then_some(step)
    }
}
