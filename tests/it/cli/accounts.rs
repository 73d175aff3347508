//! Accounts and keys.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::{CommandResult, expect_failure, folder, punctual, result, run};

#[test]
fn an_account_and_its_keys() {
    let folder = folder();
    let path = folder.path();
    let id = result(path, &["account", "create", "alice"]);
    assert!(id.starts_with("acc_") && id.lines().count() == 1, "{id}");
    let twice = expect_failure(path, &["account", "create", "alice"], 1);
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
    let again = expect_failure(path, &["key", "rotate", rows[1][0]], 1);
    assert!(again.contains("punctual key create"), "{again}");
    let list = result(path, &["key", "list", "--account", "alice"]);
    let state = |line: usize| list.lines().nth(line).and_then(|row| row.split_whitespace().nth(5));
    assert_eq!((state(1), state(3)), (Some("active"), Some("revoked")), "{list}");
}

#[test]
fn what_there_is_not() {
    let folder = folder();
    let path = folder.path();
    let missing = expect_failure(path, &["key", "create", "--account", "bob"], 1);
    assert!(missing.contains("punctual account list"), "{missing}");
    expect_failure(path, &["key", "list", "--account", "bob"], 1);
    expect_failure(path, &["key", "revoke", "key_01HF7YAT000000000000000007"], 1);
    expect_failure(path, &["key", "revoke", "7"], 2);
    expect_failure(path, &["key", "create", "--account", "bob", "--expires-in", "30"], 2);
    expect_failure(path, &["key", "create", "--account", "bob", "--scope", "admin"], 2);
    expect_failure(path, &["account", "create", " "], 2);
}

#[test]
fn stores_that_cannot_be_used() {
    let folder = folder();
    let path = folder.path();
    let missing = expect_failure(path, &["account", "list", "--store-url", "sqlite:/none/a.db"], 1);
    assert!(missing.contains("/none"), "{missing}");
    std::fs::write(path.join("text.db"), "this is a text, not a database, ".repeat(100))
        .expect("written");
    let other = expect_failure(path, &["account", "list", "--store-url", "sqlite:text.db"], 1);
    assert!(other.contains("store damaged"), "{other}");
    std::fs::write(path.join("file"), "").expect("written");
    let blocked = expect_failure(path, &["account", "list", "--data-dir", "file/data"], 1);
    assert!(blocked.contains("file/data (data_dir)"), "{blocked}");
}

#[test]
fn migrations_are_applied_on_request() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("p.toml"), "[store]\nurl = \"sqlite:a.db\"\nmigrate = false\n")
        .expect("written");
    let early = expect_failure(path, &["account", "list", "--config", "p.toml"], 1);
    assert!(early.contains("punctual migrate"), "{early}");
    for _ in 0..2 {
        assert_eq!(result(path, &["migrate", "--config", "p.toml"]), "a.db is up to date\n");
    }
    assert_eq!(run(path, &["account", "list", "--config", "p.toml"]).status, Some(0));
}

#[test]
fn an_account_has_a_plan() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("p.toml"), "[plans.free]\nschedules = 5\njobs_per_month = 100\n")
        .expect("written");
    let run_with =
        |arguments: &[&str]| result(path, &[arguments, &["--config", "p.toml"]].concat());
    let id = run_with(&["account", "create", "alice", "--plan", "free"]);
    run_with(&["account", "create", "bob"]);
    let list = run_with(&["account", "list"]);
    let state = |list: &str, name: &str| {
        let row = list.lines().find(|row| row.contains(name)).expect("a row").to_owned();
        row.split_whitespace().rev().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(state(&list, "alice"), ["active", "free"]);
    assert_eq!(state(&list, "bob"), ["active", "unlimited"]);
    let shown = run_with(&["account", "show", "alice"]);
    assert!(shown.starts_with(id.trim()) && shown.contains("plan free"), "{shown}");
    let rows: Vec<Vec<&str>> = shown.lines().map(|row| row.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["schedules", "0", "5"]), "{shown}");
    assert!(rows.contains(&vec!["jobs", "this", "month", "0", "100"]), "{shown}");

    assert_eq!(run_with(&["account", "set-plan", "bob", "free"]), "bob is on the plan free\n");
    let refused = expect_failure(path, &["account", "set-plan", "bob", "free"], 2);
    assert!(refused.contains("no plan named \"free\""), "{refused}");
    expect_failure(path, &["account", "create", "carol", "--plan", "free"], 2);
    expect_failure(path, &["account", "set-plan", "dave", "unlimited"], 1);

    assert!(run_with(&["account", "suspend", "bob"]).contains("suspended"));
    assert_eq!(state(&run_with(&["account", "list"]), "bob"), ["suspended", "free"]);
    run_with(&["account", "resume", "bob"]);
    assert_eq!(state(&run_with(&["account", "list"]), "bob"), ["active", "free"]);

    let accounts = "[accounts]\nplan = \"free\"\n";
    let plans = std::fs::read_to_string(path.join("p.toml")).expect("read");
    std::fs::write(path.join("q.toml"), format!("{accounts}{plans}")).expect("written");
    result(path, &["account", "create", "eve", "--config", "q.toml"]);
    assert_eq!(state(&run_with(&["account", "list"]), "eve"), ["active", "free"]);
    std::fs::write(path.join("q.toml"), accounts).expect("written");
    let refused = expect_failure(path, &["account", "create", "carol", "--config", "q.toml"], 2);
    assert!(refused.contains("must be unlimited or a plan"), "{refused}");

    // Without the file, the limits of these accounts are unknown.
    let ports = ["--http-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];
    let refused = run(path, &[&["serve"][..], &ports].concat());
    assert_eq!(refused.status, Some(1), "{}", refused.err);
    assert!(refused.err.contains("plans that are not configured: free"), "{}", refused.err);
}

#[test]
fn an_account_has_ten_keys_at_most() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "alice"]);
    for _ in 0..10 {
        result(path, &["key", "create", "--account", "alice"]);
    }
    let refused = expect_failure(path, &["key", "create", "--account", "alice"], 1);
    assert!(refused.contains("10 keys"), "{refused}");
}

/// No server runs that would remove the account's data.
#[test]
fn the_wait_for_a_removal_can_be_interrupted() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "alice"]);
    let mut command = punctual(path, &["account", "delete", "alice", "--yes"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("UTF-8"));
    let said = lines.next().expect("a line");
    assert_eq!(said, "alice is deleted; a server removes what it had");
    let said = lines.find(|line| !line.starts_with("removing")).expect("a line");
    assert!(said.contains("no server seems to run"), "{said}");
    let mut kill = Command::new("kill");
    let killed = kill.args(["-s", "INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill is installed").success());
    let done = CommandResult::from(child.wait_with_output().expect("ended"));
    assert_eq!(done.status, Some(0), "the account is deleted: {}", done.err);
    assert!(done.out.starts_with("alice is deleted; servers remove the rest."), "{}", done.out);
    let deleted = result(path, &["account", "list", "--deleted"]);
    assert!(deleted.contains("alice"), "{deleted}");
}

#[test]
fn an_account_is_deleted_only_after_a_confirmation() {
    let folder = folder();
    let path = folder.path();
    let id = result(path, &["account", "create", "alice"]);
    result(path, &["key", "create", "--account", "alice"]);
    expect_failure(path, &["account", "delete", "bob", "--yes"], 1);
    let refused = expect_failure(path, &["account", "delete", "alice"], 2);
    assert!(refused.contains("--yes"), "{refused}");
    let said = result(path, &["account", "delete", "alice", "--yes", "--no-wait"]);
    assert!(said.starts_with("alice is deleted"), "{said}");
    expect_failure(path, &["account", "delete", "alice", "--yes"], 1);
    expect_failure(path, &["key", "list", "--account", "alice"], 1);
    assert!(!result(path, &["account", "list"]).contains("alice"));
    let deleted = result(path, &["account", "list", "--deleted"]);
    let row: Vec<&str> = deleted.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[1]), (id.trim(), "alice"), "{deleted}");
    assert!(row[3].starts_with("operator:") && row[4].starts_with("host:"), "{deleted}");
    assert!(deleted.contains("not yet"), "{deleted}");
    result(path, &["account", "create", "alice"]);
}
