//! Leaders: each shard has one at a time.

use std::collections::BTreeMap;

use super::super::history::{History, Written};
use super::{Violation, violation};

/// I10: only the process that raised the shard's epoch last turns ticks into jobs or skips.
pub fn each_write_is_by_the_newest_leader(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut raised: BTreeMap<(i32, i64), &str> = BTreeMap::new();
    let mut newest: BTreeMap<i32, i64> = BTreeMap::new();
    for write in &history.writes {
        match write {
            Written::Epoch { shard, epoch, life } => {
                if newest.insert(*shard, *epoch).is_some_and(|before| before >= *epoch) {
                    found.push(violation("I10", format!("epoch {epoch} of {shard} is not newer")));
                }
                raised.insert((*shard, *epoch), life);
            }
            Written::Fired { shard, epoch, life } => {
                if raised.get(&(*shard, *epoch)).is_none_or(|leader| leader != life) {
                    found.push(violation("I10", format!("not the leader's write: {write:?}")));
                }
            }
        }
    }
    found
}
