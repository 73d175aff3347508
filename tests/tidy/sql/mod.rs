//! TENANT-1 in the SQL of the adapters: a statement on data of accounts names the account.
//!
//! The migrations define which tables hold such data: those with a column `account_id`. Each query
//! of a statement that reads or changes such a table (`queries`) must require the account for all
//! its rows. A query that only adds rows must fill the column. Exceptions are in `listed`.

mod listed;
mod queries;
mod unfinished;

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

use self::listed::LISTED;
use self::queries::open_table;
use crate::rust::{is_test_file, test_files};
use crate::tree::{File, Finding, Tree};

const STORES: [&str; 2] = ["sqlite", "postgres"];

/// Tables whose key was read from a row of the account in the same transaction.
const FOLLOWING: [&str; 1] = ["schedule_state"];

/// Tables without `account_id` whose rows belong to a row with one.
const BELONGING: [&str; 1] = ["attempts"];

fn check(tree: &Tree) -> Vec<Finding> {
    check_but_for(tree, LISTED)
}

/// Checks all statements except those in `listed`. Each entry of it covers one statement of a
/// store, or one of each store.
fn check_but_for(tree: &Tree, listed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![0; listed.len()];
    for store in STORES {
        let mut tables = tables_of_accounts(tree, store);
        tables.extend(BELONGING.map(str::to_owned));
        let mut found = vec![0; listed.len()];
        for (file, line, statement) in statements_of(tree, store) {
            let path = file.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
            let name = path.rsplit('/').next().unwrap_or_default();
            // The semicolon lets an entry state that the text ends there.
            let ended = format!("{statement};");
            let is_it = |(of, part): &(&str, &str)| *of == name && ended.contains(part);
            let matches: Vec<_> = (0..listed.len()).filter(|at| is_it(&listed[*at])).collect();
            matches.iter().for_each(|at| found[*at] += 1);
            let open = open_table(&statement, |word| {
                let is_any = word.starts_with('{');
                if is_any { Some("any table") } else { tables.get(word).map(String::as_str) }
            });
            if let Some(table) = open.filter(|_| matches.is_empty()) {
                let what = format!("a statement on {table} is not of one account: {statement}");
                findings.push(Finding::at(file, line, what));
            }
        }
        used.iter_mut().zip(found).for_each(|(used, found)| *used = found.max(*used));
    }
    for ((file, part), used) in listed.iter().zip(used).filter(|(_, used)| *used != 1) {
        let what = format!("{part:?} is {used} statements of {file}, not one");
        findings.push(Finding::new("tests/tidy/sql/listed.rs", what));
    }
    findings
}

/// Returns the statements of a store. Statements that both stores share are in other folders and
/// count for the first store.
fn statements_of<'a>(
    tree: &'a Tree,
    store: &str,
) -> impl Iterator<Item = (&'a File, usize, String)> {
    let tests = test_files(tree);
    let folder = format!("src/store/{store}/");
    let is_first = store == STORES[0];
    let files = tree.rust("src/store/").filter(move |file| {
        let is_of = |store: &str| file.path.starts_with(&format!("src/store/{store}/"));
        file.path.starts_with(&folder) || (is_first && !STORES.into_iter().any(is_of))
    });
    let files = files.filter(move |file| !is_test_file(&tests, &file.path));
    files.flat_map(|file| {
        statements(file).into_iter().map(move |(line, statement)| (file, line, statement))
    })
}

/// The file that names the tables from which the rows of a deleted account are removed.
const CLEARED_IN: &str = "src/store/sql/accounts/erasure.rs";

/// Finds tables of accounts whose rows would remain after the account is deleted.
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

/// Returns the tables of a store with a column `account_id`.
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

/// Returns the SQL statements in a file with their lines. Runs of whitespace are reduced to one
/// space.
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

/// Collects the string literals of a stream. Those of one `concat!` are joined.
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

    fn findings_but_for(listed: &[(&str, &str)], file: &str, code: &str) -> Vec<Finding> {
        let path = format!("src/store/postgres/{file}.rs");
        let tables = ("migrations/postgres/0001_tables.sql", TABLES);
        check_but_for(&Tree::of(&[tables, (&path, code)]), listed)
    }

    fn findings(file: &str, code: &str) -> Vec<Finding> {
        findings_but_for(&[], file, code)
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
        let expected = ["src/store/sql/accounts/erasure.rs: rows of jobs stay"];
        assert_finds(&check_cleared(&tree("// jobs")), &expected);
    }

    #[test]
    fn looks_into_what_the_stores_share() {
        let tables = ("migrations/sqlite/0001_tables.sql", TABLES);
        let code = "const A: &str = \"SELECT id FROM jobs\";\n";
        for path in ["src/store/contract/jobs.rs", "src/store/shared/jobs.rs"] {
            let findings = check_but_for(&Tree::of(&[tables, (path, code)]), &[]);
            assert_finds(&findings, &[&format!("{path}:1: ")]);
        }
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
    }

    #[test]
    fn finds_where_the_account_is_no_condition_of_all_rows() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE account_id = $1 OR id = $2\";\n\
                    const B: &str = \"SELECT a FROM jobs AS j WHERE (j.account_id = $1 OR b)\";\n\
                    const C: &str = \"SELECT a FROM jobs WHERE account_id = $1 UNION SELECT a FROM jobs\";\n\
                    const D: &str = \"WITH c AS (SELECT id FROM jobs) SELECT a FROM jobs, c WHERE account_id = $1\";\n\
                    const E: &str = \"SELECT (SELECT count(*) FROM jobs) FROM jobs WHERE account_id = $1\";\n\
                    const F: &str = \"SELECT a FROM jobs AS j JOIN jobs AS k ON j.account_id = k.account_id\";\n\
                    const G: &str = \"SELECT a FROM meta WHERE b IN (SELECT b FROM jobs WHERE id = $1)\";\n\
                    const H: &str = \"SELECT a FROM jobs WHERE NOT account_id = $1\";\n\
                    const I: &str = \"SELECT number FROM attempts WHERE job_id = $1\";\n\
                    const J: &str = \"DELETE FROM jobs WHERE id NOT IN (SELECT id FROM jobs WHERE account_id = $1)\";\n";
        let expected: Vec<_> = (1..=10).map(|line| format!("jobs.rs:{line}: ")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        assert_finds(&findings("jobs", code), &expected);
    }

    #[test]
    fn finds_what_is_listed_and_not_there_or_more_than_once() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE id = $1\";\n\
                    const B: &str = \"SELECT id FROM jobs WHERE id = $1 LIMIT 1\";\n";
        let listed = |part| findings_but_for(&[("jobs", part)], "jobs", code);
        assert_finds(&listed("WHERE id = $1;"), &["jobs.rs:2: "]);
        assert_finds(&listed("FROM jobs"), &["is 2 statements of jobs"]);
        assert_finds(&listed("FROM skips"), &["is 0 statements", "jobs.rs:1: ", "jobs.rs:2: "]);
        let elsewhere = findings_but_for(&[("claims", "WHERE id = $1;")], "jobs", code);
        assert_finds(&elsewhere, &["is 0 statements", "jobs.rs:1: ", "jobs.rs:2: "]);
    }

    #[test]
    fn leaves_alone_what_names_one_or_needs_none() {
        let code = "const A: &str = \"SELECT id FROM jobs WHERE id = $1 AND account_id = $2\";\n\
                    const B: &str = \"INSERT INTO jobs (id, account_id) VALUES ($1, $2)\";\n\
                    const B: &str = \"SELECT a FROM jobs AS j WHERE (j.account_id = $1) AND (b OR c)\";\n\
                    const E: &str = \"UPDATE jobs SET a = 1 WHERE id IN (SELECT id FROM jobs WHERE account_id = $1)\";\n\
                    const F: &str = \"SELECT a FROM jobs AS j WHERE account_id = $1 AND EXISTS (SELECT 1 FROM jobs WHERE account_id = j.account_id)\";\n\
                    const G: &str = \"INSERT INTO jobs (id, account_id) SELECT id, $1 FROM unnest($2) AS e (id)\";\n\
                    const C: &str = \"UPDATE meta SET value = 1\";\n\
                    const D: &str = \"jobs are pruned\";\n";
        assert_finds(&findings("jobs", code), &[]);
    }
}
