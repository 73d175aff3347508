//! `punctual doctor` on one machine; on a cluster it is among the tests of `serve`.

use std::os::unix::fs::PermissionsExt;

use super::{Done, complaint, folder, punctual, result, run};

/// The lines of a setting.
fn lines<'a>(text: &'a str, setting: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.split_whitespace().nth(1) == Some(setting)).collect()
}

#[test]
fn before_the_first_start_nothing_is_made_and_afterwards_all_is_well() {
    let folder = folder();
    let before = result(folder.path(), &["doctor"]);
    assert!(!folder.path().join("punctual-data").exists(), "it changes nothing");
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    assert!(before.starts_with("RESULT"), "{before}");
    assert!(lines(&before, "secrets.keys_file")[0].contains("made by the first start"), "{before}");
    let store = lines(&before, "store.url");
    assert!(store.iter().any(|line| line.contains("can be written to")), "{before}");
    assert!(store.iter().any(|line| line.contains("MB left")), "{before}");

    result(folder.path(), &["account", "create", "acme"]);
    let after = result(folder.path(), &["doctor"]);
    assert!(
        lines(&after, "store.url").iter().any(|line| line.contains("is up to date")),
        "{after}"
    );
    let json = result(folder.path(), &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let found = json.as_array().expect("a list");
    assert_eq!(found.len(), after.lines().count() - 1);
    assert!(found.iter().all(|line| line["result"] == "ok" || line["result"] == "warning"));
}

#[test]
fn what_is_readable_by_others_is_a_warning_and_a_lost_key_a_failure() {
    let folder = folder();
    result(folder.path(), &["account", "create", "acme"]);
    let store = folder.path().join("punctual-data/punctual.db");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o644)).expect("set");
    let open = result(folder.path(), &["doctor"]);
    let warned = lines(&open, "store.url");
    assert!(warned.iter().any(|line| line.starts_with("warning") && line.contains("chmod 600")));

    std::fs::remove_file(folder.path().join("punctual-data/secrets.key")).expect("removed");
    let lost = run(folder.path(), &["doctor"]);
    assert_eq!(lost.status, Some(1));
    assert!(lines(&lost.out, "secrets.keys_file")[0].starts_with("failure"), "{}", lost.out);
    assert_eq!(lost.err, "error: a check failed: look at secrets.keys_file\n");
}

#[test]
fn a_file_that_is_no_store_and_a_folder_that_is_none_are_failures() {
    let folder = folder();
    std::fs::write(
        folder.path().join("a.db"),
        "not a database at all, but long enough ".repeat(40),
    )
    .expect("written");
    for path in ["sqlite:a.db", "sqlite:/proc/1/punctual.db"] {
        let done = run(folder.path(), &["doctor", "--store-url", path]);
        assert_eq!(done.status, Some(1), "{done:?}");
        let failed = |line: &&str| line.starts_with("failure");
        assert!(lines(&done.out, "store.url").iter().any(failed), "{done:?}");
    }
}

#[test]
fn a_wrong_configuration_is_told_as_serve_tells_it() {
    let folder = folder();
    let wrong = complaint(folder.path(), &["doctor", "--store-url", "postgres://a:b@c/d"], 2);
    assert!(wrong.contains("a cluster takes store.url = postgres://…, queue.url"), "{wrong}");
    complaint(folder.path(), &["doctor", "--replicas", "0"], 2);
}

/// Servers that are not there fail each for itself, and no password is shown.
#[test]
fn servers_that_are_away_are_all_told() {
    let folder = folder();
    let done: Done = punctual(folder.path(), &["doctor"])
        .env("PUNCTUAL_STORE_URL", "postgres://u:hunter2@127.0.0.1:1/d")
        .env("PUNCTUAL_QUEUE_URL", "redis://:hunter2@127.0.0.1:1")
        .env("PUNCTUAL_CLUSTER_URL", "etcd://u:hunter2@127.0.0.1:1")
        .env("PUNCTUAL_SECRETS_KEYS", format!("k1:{}", "A".repeat(43) + "="))
        .output()
        .expect("started")
        .into();
    assert_eq!(done.status, Some(1), "{done:?}");
    for setting in ["store.url", "queue.url", "cluster.url"] {
        assert!(lines(&done.out, setting)[0].starts_with("failure"), "{}", done.out);
        assert!(done.err.contains(setting), "{}", done.err);
    }
    assert!(
        lines(&done.out, "secrets.keys_file")[0].ends_with("encrypted with k1"),
        "{}",
        done.out
    );
    assert!(!format!("{}{}", done.out, done.err).contains("hunter2"), "{done:?}");
    assert!(!done.out.contains("AAAA"), "{done:?}");
}
