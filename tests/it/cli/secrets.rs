//! The keys that seal secrets.

use std::os::unix::fs::PermissionsExt;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::{expect_failure, folder, result, run};

#[test]
fn one_machine_makes_a_key_that_only_its_owner_can_read() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "alice"]);
    let file = path.join("punctual-data/secrets.key");
    let made = std::fs::read_to_string(&file).expect("a key");
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = std::fs::read_dir(path.join("punctual-data")).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("text"));
    let drafts = names.filter(|name| name.starts_with("secrets.key")).count();
    assert_eq!(drafts, 1, "the draft is removed");
    result(path, &["account", "list"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a key"), made, "the key is never replaced");

    std::fs::rename(&file, path.join("kept")).expect("moved");
    let lost = expect_failure(path, &["account", "list"], 1);
    assert!(lost.contains("punctual-data/secrets.key, which is gone"), "{lost}");
    assert!(!file.exists(), "no other key is made in its place");
    let other = result(path, &["secrets", "generate"]);
    std::fs::write(&file, &other).expect("written");
    let wrong = expect_failure(path, &["account", "list"], 1);
    assert!(wrong.contains("which is not configured: add it to secrets.keys"), "{wrong}");
    let (id, _) = made.lines().last().expect("a key").split_once(':').expect("an id");
    let (_, bytes) = other.split_once(':').expect("an id");
    std::fs::write(&file, format!("{id}:{bytes}")).expect("written");
    let wrong = expect_failure(path, &["account", "list"], 1);
    assert!(wrong.contains("another key of the id"), "{wrong}");
    assert!(!wrong.contains(bytes.trim()), "{wrong}");
    std::fs::write(&file, "# nothing").expect("written");
    let empty = expect_failure(path, &["account", "list"], 1);
    assert!(empty.contains("it contains no key"), "{empty}");
    result(path, &["account", "list", "--secrets-keys-file", "kept"]);
}

#[test]
fn a_key_is_replaced_by_another_one() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "alice"]);
    let file = path.join("punctual-data/secrets.key");
    let old = std::fs::read_to_string(&file).expect("a key");
    let (old_id, _) = old.lines().last().expect("a key").split_once(':').expect("an id");
    let said = result(path, &["secrets", "rotate"]);
    assert!(said.contains("No other key was in use"), "{said}");
    let new = result(path, &["secrets", "generate"]);
    assert_eq!(new.lines().count(), 1);
    std::fs::write(&file, format!("{new}{old}")).expect("written");
    let said = result(path, &["secrets", "rotate"]);
    assert!(said.contains(&format!("Not needed any more: {old_id}.")), "{said}");
    std::fs::write(&file, &new).expect("written");
    result(path, &["account", "list"]);
    std::fs::write(&file, &old).expect("written");
    let refused = expect_failure(path, &["account", "list"], 1);
    assert!(refused.contains("which is not configured"), "{refused}");
}

#[tokio::test]
async fn rows_that_cannot_be_decrypted_are_counted_and_can_be_abandoned() {
    let folder = folder();
    let path = folder.path();
    let id = result(path, &["account", "create", "alice"]);
    let store = SqliteConnectOptions::new().filename(path.join("punctual-data/punctual.db"));
    let mut other_session = store.connect().await.expect("connected");
    let spoil =
        "UPDATE signing_secrets SET secret = substr(secret, 1, length(secret) - 4) || 'AAAA'
                 RETURNING secret";
    let secret: String =
        sqlx::query_scalar(spoil).fetch_one(&mut other_session).await.expect("spoilt");
    other_session.close().await.expect("closed");
    let file = path.join("punctual-data/secrets.key");
    let old = std::fs::read_to_string(&file).expect("a key");
    let new = result(path, &["secrets", "generate"]);
    std::fs::write(&file, format!("{new}{old}")).expect("written");
    let kept = run(path, &["secrets", "rotate"]);
    let lost = format!("1 rows of signing_secrets of {} cannot be decrypted", id.trim());
    assert!(kept.out.contains(&lost) && kept.err.contains("--abandon-unreadable"), "{kept:?}");
    assert_eq!(kept.status, Some(1));
    assert!(!kept.out.contains(&secret) && !kept.err.contains(&secret), "{kept:?}");
    let abandoned = run(path, &["secrets", "rotate", "--abandon-unreadable"]);
    assert!(abandoned.out.contains("Not needed any more: "), "{abandoned:?}");
    assert!(abandoned.out.contains(&lost), "{abandoned:?}");
    assert_eq!(abandoned.status, Some(0));
    std::fs::write(&file, &new).expect("written");
    result(path, &["account", "list"]);
}

#[test]
fn a_cluster_needs_keys() {
    let folder = folder();
    let store = ["--store-url", "postgres://punctual@127.0.0.1:1/punctual"];
    let said = expect_failure(folder.path(), &[&["account", "list"], &store[..]].concat(), 1);
    assert!(said.contains("set secrets.keys_file or secrets.keys"), "{said}");
}
