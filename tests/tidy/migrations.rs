//! The migrations of all stores have the same numbers and names, without gaps.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Finding, Tree};

fn check(tree: &Tree) -> Vec<Finding> {
    let mut stores: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in &tree.files {
        let parts: Vec<&str> = file.path.split('/').collect();
        if let ["migrations", store, name] = parts[..] {
            stores.entry(store).or_default().insert(name);
        }
    }
    let all: BTreeSet<&str> = stores.values().flatten().copied().collect();
    let mut findings = Vec::new();
    for (store, names) in &stores {
        for name in all.difference(names) {
            let path = format!("migrations/{store}");
            findings.push(Finding::new(&path, format!("has no {name}, but another store has it")));
        }
        for (expected, name) in (1_usize..).zip(names) {
            let number = name.split_once('_').and_then(|(number, _)| number.parse().ok());
            if number != Some(expected) {
                let path = format!("migrations/{store}/{name}");
                findings.push(Finding::new(&path, format!("is not number {expected}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_what_one_store_lacks() {
        let tree = Tree::of(&[
            ("migrations/sqlite/0001_schema.sql", ""),
            ("migrations/sqlite/0002_audit.sql", ""),
            ("migrations/postgres/0001_schema.sql", ""),
        ]);
        assert_finds(&check(&tree), &["migrations/postgres: has no 0002_audit.sql"]);
    }

    #[test]
    fn finds_gaps_and_doubles() {
        let tree = Tree::of(&[
            ("migrations/sqlite/0001_schema.sql", ""),
            ("migrations/sqlite/0001_second.sql", ""),
            ("migrations/sqlite/0004_audit.sql", ""),
        ]);
        let expected = ["0001_second.sql: is not number 2", "0004_audit.sql: is not number 3"];
        assert_finds(&check(&tree), &expected);
    }
}
