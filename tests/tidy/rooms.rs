//! Rooms of the two databases: both have the same folders, so that what one side does in a folder is
//! found in the same folder of the other.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tree};

const ADAPTERS: [&str; 2] = ["src/store/postgres/", "src/store/sqlite/"];

fn check(tree: &Tree) -> Vec<Finding> {
    let [postgres, sqlite] = ADAPTERS.map(|adapter| rooms(tree, adapter));
    let missing = |adapter: &str, there: &BTreeSet<String>, wanted: &BTreeSet<String>| {
        let missing = wanted.difference(there);
        missing.map(|room| Finding::new(adapter, format!("has no folder {room}"))).collect()
    };
    let mut findings: Vec<Finding> = missing(ADAPTERS[0], &postgres, &sqlite);
    findings.extend(missing(ADAPTERS[1], &sqlite, &postgres));
    findings
}

/// Returns the names of the folders of an adapter.
fn rooms(tree: &Tree, adapter: &str) -> BTreeSet<String> {
    let files = tree.rust(adapter).filter_map(|file| file.path.strip_prefix(adapter));
    files.filter_map(|path| path.split_once('/')).map(|(room, _)| room.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::assert_tidy;

    #[test]
    fn repository() {
        let tree = Tree::repository();
        assert!(rooms(&tree, ADAPTERS[0]).len() > 3);
        assert_tidy(&check(&tree));
    }

    #[test]
    fn a_folder_on_one_side_alone_is_found() {
        let tree = Tree::of(&[
            ("src/store/postgres/firing/mod.rs", ""),
            ("src/store/postgres/account_fence.rs", ""),
            ("src/store/sqlite/firing/mod.rs", ""),
            ("src/store/sqlite/claims/late.rs", ""),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["src/store/postgres/: has no folder claims"]);
    }
}
