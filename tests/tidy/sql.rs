//! TENANT-1 in the SQL of the adapters: a statement on accounts' data names the account.
//!
//! Which tables hold such data, the migrations say: those with a column `account_id`. A statement
//! that reads or changes one of them compares that column, one that only adds rows fills it. What
//! may do without is named below.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

use crate::rust::{is_test_file, test_files};
use crate::tree::{File, Finding, Tree};

const STORES: [&str; 2] = ["sqlite", "postgres"];

/// The files whose statements work on batches of all accounts: the stages', pruning, and copying
/// a whole store.
const BATCHES: [&str; 15] = [
    "batch",
    "claims",
    "commit",
    "copy",
    "ending",
    "fire",
    "firing",
    "open",
    "partitions",
    "passing",
    "prune",
    "quotas",
    "runs",
    "tickets",
    "upkeep",
];

/// Found by a key that was read together with an account's row, in the same transaction.
const FOLLOWING: [&str; 1] = ["schedule_state"];

/// Single statements that name no account, by what they contain.
const OTHERS: [&str; 18] = [
    // The rows of a page, by the ids that were found for the account.
    "WHERE j.id = unhex(e.value)",
    "WHERE j.id = ANY ($1)",
    "WHERE s.id = unhex(e.value)",
    "JOIN schedules AS s ON s.id = e.id",
    // What follows from a schedule's state, which belongs to one that was found.
    "UPDATE jobs SET wake_at =",
    "UPDATE schedule_state SET active_job_id =",
    "UPDATE skips",
    "FROM skips WHERE schedule_id = ?1 ORDER BY",
    "SELECT EXISTS (SELECT 1 FROM jobs WHERE schedule_id =",
    // Authentication asks whose the key is, what a user belongs to, and what an invitation is for.
    "FROM api_keys AS k",
    "WHERE m.user_id = $1 ORDER BY a.name",
    "WHERE digest = $1 AND expires_at > $2 AND email =",
    // Of the keys that were used, with the accounts that authentication has found.
    "UPDATE api_keys SET last_used_at",
    "UPDATE api_keys AS k SET last_used_at",
    // Accounts that lack a secret.
    "FROM signing_secrets AS s WHERE s.account_id = a.id",
    // The end of their time does not depend on whose they are.
    "DELETE FROM invitations WHERE expires_at <= $1 AND id IN",
    "DELETE FROM audit_log WHERE id IN",
    "DELETE FROM idempotency_keys WHERE id IN",
];

fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_files(tree);
    let mut findings = Vec::new();
    for store in STORES {
        let tables = tables_of_accounts(tree, store);
        // What both share is in the folder above, and looked at beside the first.
        let folder = format!("src/store/{store}/");
        let shared = tree
            .rust("src/store/")
            .filter(|file| store == STORES[0] && !file.path["src/store/".len()..].contains('/'));
        for file in tree.rust(&folder).chain(shared) {
            let name = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
            if BATCHES.contains(&name) || is_test_file(&tests, &file.path) {
                continue;
            }
            for (line, statement) in statements(file) {
                let named = tables.iter().find(|table| names(&statement, table));
                if let Some(table) = named.filter(|_| !is_of_one_account(&statement)) {
                    let what = format!("a statement on {table} names no account");
                    findings.push(Finding::at(file, line, what));
                }
            }
        }
    }
    findings
}

/// Where it is named what goes with an account.
const CLEARED_IN: &str = "src/store/life.rs";

/// The tables of accounts whose rows would stay when the account is deleted.
fn check_cleared(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.files.iter().find(|file| file.path == CLEARED_IN) else {
        return Vec::new();
    };
    let tables: BTreeSet<String> =
        STORES.iter().flat_map(|store| tables_of_accounts(tree, store)).collect();
    let stays = |table: &String| !file.text.contains(&format!("\"{table}\""));
    let what = |table| format!("rows of {table} stay when their account is deleted: name it");
    let stay = tables.into_iter().filter(stays);
    stay.map(|table| Finding::new(CLEARED_IN, what(table))).collect()
}

/// The tables of a store with a column `account_id`.
fn tables_of_accounts(tree: &Tree, store: &str) -> BTreeSet<String> {
    let mut tables = BTreeSet::new();
    let folder = format!("migrations/{store}/");
    for file in tree.files.iter().filter(|file| file.path.starts_with(&folder)) {
        for created in file.text.split("CREATE TABLE ").skip(1) {
            let (name, rest) = created.split_once(' ').unwrap_or_default();
            let columns = rest.split_once(';').map_or(rest, |(columns, _)| columns);
            if columns.contains("account_id") && !FOLLOWING.contains(&name) {
                tables.insert(name.to_owned());
            }
        }
    }
    tables
}

/// Whether a statement is about one account, or is one of those that need not be.
fn is_of_one_account(statement: &str) -> bool {
    let columns = statement.split_once("INSERT INTO ").and_then(|(_, rest)| rest.split_once(')'));
    let fills = columns.is_some_and(|(columns, _)| columns.contains("account_id"));
    let compares = ["account_id = $", "account_id = ?"];
    compares.iter().any(|comparison| statement.contains(comparison))
        || fills
        || OTHERS.iter().any(|other| statement.contains(other))
}

fn names(statement: &str, table: &str) -> bool {
    let mut words = statement.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == table)
}

/// The SQL in a file, each statement with its line; blanks are single.
fn statements(file: &File) -> Vec<(usize, String)> {
    let stream: TokenStream = match file.text.parse() {
        Ok(stream) => stream,
        Err(error) => panic!("{} is not Rust: {error}", file.path),
    };
    let mut found = Vec::new();
    literals(stream, &mut found);
    found.retain(|(_, text)| {
        let verb = text.trim_start().split(' ').next().unwrap_or_default();
        ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&verb)
    });
    found
}

/// The texts in a stream; those of one `concat!` are one.
fn literals(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let text = text.trim_matches('"').replace("\\n", " ").replace("\\\n", " ");
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push((literal.span().start().line, text));
            }
            TokenTree::Group(group) => {
                let joined =
                    at >= 2 && matches!(&trees[at - 2], TokenTree::Ident(name) if name == "concat");
                let before = found.len();
                literals(group.stream(), found);
                if joined && found.len() > before {
                    let texts: Vec<_> = found.drain(before..).collect();
                    let whole: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
                    found.push((texts[0].0, whole.join(" ")));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    const TABLES: &str = "CREATE TABLE jobs (\n    id uuid,\n    account_id uuid\n);\n\
                          CREATE TABLE meta (\n    name text\n);\n";

    fn findings(file: &str, code: &str) -> Vec<Finding> {
        let path = format!("src/store/postgres/{file}.rs");
        check(&Tree::of(&[("migrations/postgres/0001_tables.sql", TABLES), (&path, code)]))
    }

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
        assert_tidy(&check_cleared(&Tree::repository()));
    }

    #[test]
    fn finds_what_would_outlive_its_account() {
        let tree =
            |text| Tree::of(&[("migrations/postgres/0001_tables.sql", TABLES), (CLEARED_IN, text)]);
        assert_finds(&check_cleared(&tree("const A: &str = \"jobs\";")), &[]);
        let expected = ["src/store/life.rs: rows of jobs stay"];
        assert_finds(&check_cleared(&tree("// jobs")), &expected);
    }

    #[test]
    fn finds_statements_without_an_account() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE id = $1\";\n\
                    fn b() { q(concat!(\"SELECT \", c!(), \" FROM jobs AS j\n WHERE j.id = $1\")) }\n\
                    const D: &str = \"DELETE FROM jobs WHERE account_id IS NULL\";\n\
                    const E: &str = \"INSERT INTO jobs (id) VALUES ($1)\";\n";
        let expected = ["jobs.rs:1: ", "jobs.rs:2: ", "jobs.rs:4: ", "jobs.rs:5: "];
        assert_finds(&findings("jobs", code), &expected);
        assert_finds(&findings("claims", code), &[]);
    }

    #[test]
    fn leaves_alone_what_names_one_or_needs_none() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE id = $1 AND account_id = $2\";\n\
                    const B: &str = \"INSERT INTO jobs (id, account_id) VALUES ($1, $2)\";\n\
                    const C: &str = \"UPDATE meta SET value = 1\";\n\
                    const D: &str = \"jobs are pruned\";\n";
        assert_finds(&findings("jobs", code), &[]);
    }
}
