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

/// The files whose statements work on batches of all accounts: the stages', pruning, and copying a
/// whole store.
const BATCHES: &[&str] = &[
    "batch",
    "claims",
    "commit",
    "copy",
    "ending",
    "fire",
    "firing",
    "partitions",
    "passing",
    "prune",
    "runs",
    "statements",
    "tickets",
];

/// Found by a key that was read together with an account's row, in the same transaction.
const FOLLOWING: [&str; 1] = ["schedule_state"];

/// Single statements that name no account: the file, and how it is told from others there.
const OTHERS: &[(&str, &str)] = &[
    // The rows of a page, by the ids that were found for the account.
    ("job_list", "WHERE j.id = unhex(e.value)"),
    ("job_list", "WHERE j.id = ANY ($1) AND j.id BETWEEN $2 AND $3"),
    ("schedule_list", "WHERE s.id = unhex(e.value)"),
    ("schedule_list", "JOIN schedules AS s ON s.id = e.id"),
    // What follows from a schedule's state, which belongs to one that was found.
    ("overlap", "UPDATE jobs SET wake_at = $1, updated_at = $1"),
    ("overlap", "UPDATE jobs SET wake_at = ?1, updated_at = ?1"),
    ("overlap", "UPDATE schedule_state SET active_job_id ="),
    ("skips", "UPDATE skips AS k SET last_tick = $3"),
    ("skips", "UPDATE skips SET last_tick = ?2"),
    ("skips", "FROM skips WHERE schedule_id = ?1 ORDER BY"),
    ("skips", "SELECT EXISTS (SELECT 1 FROM jobs WHERE schedule_id ="),
    // Authentication asks whose the key is, what a user belongs to, and what an invitation is for.
    ("accounts", "FROM api_keys AS k"),
    ("user_rows", "WHERE m.user_id = $1 ORDER BY a.name"),
    ("user_rows", "WHERE m.user_id = $1 ORDER BY m.account_id"),
    ("user_rows", "WHERE digest = $1 AND expires_at > $2 AND email ="),
    // Of the keys that were used, with the accounts that authentication has found.
    ("accounts", "UPDATE api_keys SET last_used_at"),
    ("accounts", "UPDATE api_keys AS k SET last_used_at"),
    // Accounts that lack a secret.
    ("signing", "FROM signing_secrets AS s WHERE s.account_id = a.id"),
    // The end of their time does not depend on whose they are.
    ("user_rows", "DELETE FROM invitations WHERE expires_at <= $1 AND id IN"),
    ("audit", "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE id <"),
    (
        "idempotency",
        "DELETE FROM idempotency_keys WHERE id IN (SELECT id FROM idempotency_keys WHERE",
    ),
    ("signing", "DELETE FROM signing_secrets WHERE id IN (SELECT id FROM signing_secrets WHERE"),
    ("upkeep", "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE coalesce("),
    // How the shards of all accounts stand.
    ("upkeep", "FROM jobs WHERE status = 0 AND wake_at <="),
    ("upkeep", "(SELECT FROM jobs WHERE status < 2 LIMIT $1) AS counted"),
    ("upkeep", "FROM jobs INDEXED BY jobs_unfinished WHERE status < 2 LIMIT ?1"),
    // The counters of the accounts of a batch, each beside its own.
    ("quotas", "WHERE m.account_id = w.account_id AND m.month = $1)"),
    ("quotas", "WHERE j.account_id = w.account_id AND j.id >= $1"),
    ("quotas", "f.account_id = w.account_id AND f.month = -$1"),
    ("quotas", "DELETE FROM account_months WHERE account_id = ANY ($1) AND abs(month) <"),
    ("quotas", "JOIN account_months AS m ON m.account_id = w.account_id AND m.month = $1"),
    ("quotas", "WHERE account_id = w.id AND month = ?1)"),
    ("quotas", "WHERE account_id = unhex(w.value) AND id >= ?1"),
    // The secrets of all accounts are sealed with one key; a row's own account opens them.
    ("secrets", "FROM {name} WHERE id > ?2 AND ({is_stale})"),
    ("secrets", "FROM {name} WHERE id = ?2 AND ({is_stale})"),
    ("secrets", "FROM {name} WHERE id > $2 AND ({is_stale})"),
    ("secret_rows", "FROM {name} WHERE {is_stale}"),
    ("secret_rows", "FROM {name} WHERE id > $2 AND ({is_stale})"),
    ("secret_rows", "UPDATE {name} SET {} WHERE id = $1"),
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
                let is_known =
                    OTHERS.iter().any(|(of, part)| *of == name && statement.contains(part));
                if is_known {
                    continue;
                }
                let is_any =
                    ["FROM {", "UPDATE {", "INTO {"].iter().any(|any| statement.contains(any));
                if is_any && !compares(&statement) {
                    let what = "a statement does not say which table it is on";
                    findings.push(Finding::at(file, line, what.to_owned()));
                }
                let named = tables.iter().find(|table| names(&statement, table));
                let named = named.filter(|_| !is_of_one_account(&statement, &tables));
                if let Some(table) = named {
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

/// Whether a statement is about one account: it compares the column, or fills it and reads no other
/// account's rows.
fn is_of_one_account(statement: &str, tables: &BTreeSet<String>) -> bool {
    compares(statement) || fills(statement, tables)
}

/// Whether the account is a condition, and not only what a column is set to.
fn compares(statement: &str) -> bool {
    ["account_id = $", "account_id = ?"].iter().any(|comparison| {
        statement.match_indices(comparison).any(|(at, _)| {
            let before = statement[..at].rsplit(' ').next().unwrap_or_default();
            let before = statement[..at - before.len()].trim_end();
            let alias = statement[before.len()..at].trim();
            let plain = alias.trim_start_matches('(');
            let is_column = plain.is_empty() || plain.ends_with('.');
            let opens = alias.len() > plain.len();
            is_column && (opens || ["WHERE", "AND", "ON"].iter().any(|word| before.ends_with(word)))
        })
    })
}

fn fills(statement: &str, tables: &BTreeSet<String>) -> bool {
    let Some((_, rest)) = statement.split_once("INSERT INTO ") else { return false };
    let Some((columns, rest)) = rest.split_once(')') else { return false };
    let mut sources = rest.split("FROM ").skip(1).chain(rest.split("JOIN ").skip(1));
    let reads = sources.any(|source| {
        let table = source.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        table.is_some_and(|table| tables.contains(table))
    });
    columns.contains("account_id") && !reads
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
                    const E: &str = \"INSERT INTO jobs (id) VALUES ($1)\";\n\
                    const F: &str = \"UPDATE jobs SET account_id = $2 WHERE id = $1\";\n\
                    const G: &str = \"INSERT INTO jobs (account_id) SELECT account_id FROM jobs\";\n\
                    fn h() { q(format!(\"DELETE FROM {table} WHERE id = $1\")) }\n";
        let expected = [
            "jobs.rs:1: ",
            "jobs.rs:2: ",
            "jobs.rs:4: ",
            "jobs.rs:5: ",
            "jobs.rs:6: ",
            "jobs.rs:7: ",
            "jobs.rs:8: ",
        ];
        assert_finds(&findings("jobs", code), &expected);
        assert_finds(&findings("claims", code), &[]);
    }

    #[test]
    fn leaves_alone_what_names_one_or_needs_none() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE id = $1 AND account_id = $2\";\n\
                    const B: &str = \"INSERT INTO jobs (id, account_id) VALUES ($1, $2)\";\n\
                    const B: &str = \"SELECT a FROM jobs AS j WHERE (j.account_id = $1 OR b)\";\n\
                    const C: &str = \"UPDATE meta SET value = 1\";\n\
                    const D: &str = \"jobs are pruned\";\n";
        assert_finds(&findings("jobs", code), &[]);
    }
}
