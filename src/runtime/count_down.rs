//! Counts by key, of which only those above zero are kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Subtracts one from the count of `key`, and removes the count when it reaches zero.
pub fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_ends_at_zero() {
        let mut counts = HashMap::from([('a', 2), ('b', 1)]);
        for key in ['a', 'b', 'c'] {
            count_down(&mut counts, key);
        }
        assert_eq!(counts, HashMap::from([('a', 1)]));
    }
}
