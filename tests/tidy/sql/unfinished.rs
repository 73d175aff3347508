//! The index of unfinished jobs by account is partial, so that PostgreSQL never prefers it for a
//! lookup by id, which would read the whole index for each job. A statement that uses the index
//! must state the index's condition.

use super::{STORES, statements_of};
use crate::tree::{Finding, Tree};

/// The condition of the index in the migrations of PostgreSQL.
const CONDITION: &str = "status < 2";

/// Finds statements that search unfinished jobs by account alone, without the condition.
fn check(tree: &Tree) -> Vec<Finding> {
    let statements = STORES.into_iter().flat_map(|store| statements_of(tree, store));
    let is_of_postgres = |path: &str| !path.starts_with("src/store/sqlite/");
    let beside = statements
        .filter(|(file, _, statement)| is_of_postgres(&file.path) && is_beside_index(statement));
    let what = |statement| format!("the index of runs needs `{CONDITION}`: {statement}");
    beside.map(|(file, line, statement)| Finding::at(file, line, what(statement))).collect()
}

/// Returns `true` if a statement searches unfinished jobs by account, and neither by id (which may
/// be in a part that the code inserts) nor with the index's condition. A statement that names its
/// index is one of SQLite.
fn is_beside_index(statement: &str) -> bool {
    let reads = ["FROM runs", "UPDATE runs", "JOIN runs"].iter().any(|part| {
        let mut after = statement.split(part).skip(1);
        after.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    });
    let is_by_account = statement.contains("account_id = ");
    let is_exempt = ["id = ANY", " id = ", ".id = ", "WHERE {", "INDEXED BY"]
        .iter()
        .any(|lookup| statement.contains(lookup));
    reads && is_by_account && !is_exempt && !statement.contains(CONDITION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        let tree = Tree::repository();
        assert_tidy(&check(&tree));
        let migrations = tree.files.iter().filter(|file| file.path.starts_with("migrations/"));
        let index = format!("WHERE {CONDITION}");
        assert!(migrations.into_iter().any(|file| file.text.contains(&index)));
    }

    #[test]
    fn finds_statements_that_cannot_use_the_index() {
        let findings = |code: &str| check(&Tree::of(&[("src/store/postgres/jobs.rs", code)]));
        let beside = "const A: &str = \"SELECT id FROM runs WHERE account_id = $1\";\n";
        assert_finds(&findings(beside), &["src/store/postgres/jobs.rs:1: "]);
        for fine in [
            "SELECT id FROM runs WHERE account_id = $1 AND status < 2",
            "SELECT status FROM runs WHERE account_id = $1 AND id = $2",
            "SELECT id FROM jobs WHERE account_id = $1",
            "SELECT id FROM runs WHERE wake_at < $1",
            "UPDATE runs SET stop = 1 WHERE {among} AND account_id = $2",
        ] {
            assert_finds(&findings(&format!("const A: &str = \"{fine}\";\n")), &[]);
        }
    }
}
