//! Assigns shards to replicas. The assignment depends only on the set of members, so that all
//! replicas compute the same result without communication.

use sha2::{Digest, Sha256};

/// Returns, for each of `shards` shards, the index in `members` of the replica that should lead it;
/// an empty list if there are no members. The order of `members` does not matter.
///
/// This is rendezvous hashing with a bound: each shard goes to the member that ranks highest for it
/// among those with fewer shards than the even share, rounded up. So no member has more than that
/// share, and few shards move when a member joins or leaves.
pub fn assign_shards(members: &[&str], shards: u16) -> Vec<usize> {
    if members.is_empty() {
        return Vec::new();
    }
    let most = usize::from(shards).div_ceil(members.len());
    let mut loads = vec![0; members.len()];
    let owner = |shard| {
        let free = (0..members.len()).filter(|position| loads[*position] < most);
        let best =
            free.max_by_key(|position| (rank(members[*position], shard), members[*position]));
        let best = best.expect("the parts add up to all shards");
        loads[best] += 1;
        best
    };
    (0..shards).map(owner).collect()
}

fn rank(member: &str, shard: u16) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(shard.to_be_bytes());
    hash.update(member.as_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "replica-3", "replica-4", "x", "y"];

    #[test]
    fn parts_are_even() {
        for count in 1..=NAMES.len() {
            for shards in [1, 2, 5, 64, 1_024] {
                let owners = assign_shards(&NAMES[..count], shards);
                let part = |position| owners.iter().filter(|owner| **owner == position).count();
                let most = usize::from(shards).div_ceil(count);
                assert!(
                    (0..count).all(|position| part(position) <= most),
                    "{count} share {shards}"
                );
            }
        }
        assert!(assign_shards(&[], 5).is_empty());
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let name = |members: &[&'static str]| -> Vec<_> {
            assign_shards(members, 64).into_iter().map(|owner| members[owner]).collect()
        };
        assert_eq!(name(&["a", "b", "c"]), name(&["c", "a", "b"]));
    }

    #[test]
    fn few_shards_move() {
        for count in 1..NAMES.len() {
            let (before, after) =
                (assign_shards(&NAMES[..count], 1_024), assign_shards(&NAMES[..=count], 1_024));
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            let needed = 1_024 / (count + 1);
            assert!(moved <= needed * 3 / 2, "{moved} moved for {needed} when one joined {count}");
        }
    }
}
