//! Accounts and keys.

use super::{complaint, folder, result, run};

#[test]
fn an_account_and_its_keys() {
    let folder = folder();
    let path = folder.path();
    let id = result(path, &["account", "create", "alice"]);
    assert!(id.starts_with("acc_") && id.lines().count() == 1, "{id}");
    let twice = complaint(path, &["account", "create", "alice"], 1);
    assert!(twice.contains("alice"), "{twice}");
    let list = result(path, &["account", "list"]);
    assert!(list.contains(id.trim()) && list.contains("  alice  "), "{list}");

    let key = result(path, &["key", "create", "--account", "alice"]);
    assert!(key.starts_with("pnc_") && key.lines().count() == 1, "{key}");
    let arguments = ["key", "create", "--account", "alice", "--name", "reader"];
    result(path, &[&arguments[..], &["--scope", "read", "--expires-in", "30d"]].concat());
    let list = result(path, &["key", "list", "--account", "alice"]);
    assert!(!list.contains(key.trim()), "the key itself is not kept");
    let rows: Vec<Vec<&str>> =
        list.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
    assert_eq!((rows[0][1], rows[0][2], rows[0][5]), ("reader", "read", "active"));
    assert_eq!((rows[1][2], rows[1][4], rows[1][5]), ("write", "never", "active"));

    assert!(rows[0][6].starts_with("operator:"), "{list}");

    let new = result(path, &["key", "rotate", rows[1][0]]);
    assert!(new.starts_with("pnc_") && new != key, "{new}");
    result(path, &["key", "revoke", rows[1][0]]);
    let again = complaint(path, &["key", "rotate", rows[1][0]], 1);
    assert!(again.contains("punctual key create"), "{again}");
    let list = result(path, &["key", "list", "--account", "alice"]);
    let state = |line: usize| list.lines().nth(line).and_then(|row| row.split_whitespace().nth(5));
    assert_eq!((state(1), state(3)), (Some("active"), Some("revoked")), "{list}");
}

#[test]
fn what_there_is_not() {
    let folder = folder();
    let path = folder.path();
    let missing = complaint(path, &["key", "create", "--account", "bob"], 1);
    assert!(missing.contains("punctual account list"), "{missing}");
    complaint(path, &["key", "list", "--account", "bob"], 1);
    complaint(path, &["key", "revoke", "key_01HF7YAT000000000000000007"], 1);
    complaint(path, &["key", "revoke", "7"], 2);
    complaint(path, &["key", "create", "--account", "bob", "--expires-in", "30"], 2);
    complaint(path, &["key", "create", "--account", "bob", "--scope", "admin"], 2);
    complaint(path, &["account", "create", " "], 2);
}

#[test]
fn stores_that_cannot_be_used() {
    let folder = folder();
    let path = folder.path();
    let missing = complaint(path, &["account", "list", "--store-url", "sqlite:/none/a.db"], 1);
    assert!(missing.contains("/none"), "{missing}");
    std::fs::write(path.join("text.db"), "this is a text, not a database, ".repeat(100))
        .expect("written");
    let other = complaint(path, &["account", "list", "--store-url", "sqlite:text.db"], 1);
    assert!(other.contains("store damaged"), "{other}");
    std::fs::write(path.join("file"), "").expect("written");
    let blocked = complaint(path, &["account", "list", "--data-dir", "file/data"], 1);
    assert!(blocked.contains("file/data (data_dir)"), "{blocked}");
}

#[test]
fn migrations_are_applied_on_request() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("p.toml"), "[store]\nurl = \"sqlite:a.db\"\nmigrate = false\n")
        .expect("written");
    let early = complaint(path, &["account", "list", "--config", "p.toml"], 1);
    assert!(early.contains("punctual migrate"), "{early}");
    for _ in 0..2 {
        assert_eq!(result(path, &["migrate", "--config", "p.toml"]), "a.db is up to date\n");
    }
    assert_eq!(run(path, &["account", "list", "--config", "p.toml"]).status, Some(0));
}
