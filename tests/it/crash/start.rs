//! Starts that must fail with an explanation.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use crate::harness::process::{Installation, binary, run_to_end};

/// Starts a server that must fail. Its output must have one error line with all `words`, besides
/// the log.
async fn refused(command: std::process::Command, words: &[&str]) {
    let (code, said) = run_to_end(command).await;
    assert_eq!(code, Some(1), "{said}");
    let line = said.lines().find(|line| line.starts_with("error: "));
    let line = line.unwrap_or_else(|| panic!("no complaint in {said:?}"));
    for word in words {
        assert!(line.contains(word), "no {word:?} in {line:?}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

async fn open(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    options.connect().await.expect("opened")
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused() {
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    refused(installation.command(&["serve"]), &["another server", "punctual.db"]).await;
    let api = installation.client(&server);
    assert_eq!(api.get("/v1/schedules").await.status, 200, "the first server continues");
    // Commands of operators work while the server runs.
    assert!(installation.run(&["account", "list"]).contains("first"));
    // The lock is released when its process ends in any way.
    server.kill();
    installation.serve().await;
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let installation = Installation::new(&[]);
    for (variable, setting) in
        [("PUNCTUAL_HTTP_LISTEN", "http.listen"), ("PUNCTUAL_OPS_LISTEN", "ops.listen")]
    {
        let mut command = installation.command(&["serve"]);
        command.env(variable, &address);
        refused(command, &[setting, &address, "in use"]).await;
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_left_alone() {
    let installation = Installation::new(&[]);
    let text = "Dear diary, this is no database. ".repeat(400);
    for file in ["-wal", "-shm"] {
        let path = installation.data_dir().join(format!("punctual.db{file}"));
        let _ = fs::remove_file(path);
    }
    fs::write(installation.file(), &text).expect("written");
    refused(installation.command(&["serve"]), &["punctual.db", "not an SQLite database"]).await;
    assert_eq!(fs::read_to_string(installation.file()).expect("read"), text);
}

#[tokio::test]
async fn a_damaged_database_is_reported() {
    let installation = Installation::new(&[]);
    let path = installation.file();
    let mut store = open(&path).await;
    // The write-ahead log is empty then. Otherwise it would repair the file.
    let emptied = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut store).await;
    emptied.expect("emptied");
    store.close().await.expect("closed");
    let mut bytes = fs::read(&path).expect("read");
    // The header stays valid, so the file looks like a database. The page of the schema is damaged.
    bytes[100..4_096].fill(0xff);
    fs::write(&path, bytes).expect("written");
    refused(installation.command(&["serve"]), &["punctual.db", "damaged"]).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "in the way").expect("written");
    for data_dir in [file.clone(), file.join("below")] {
        let mut command = binary(&data_dir);
        command.arg("serve");
        refused(command, &["data folder", file.to_str().expect("text")]).await;
    }
}

#[tokio::test]
async fn a_store_in_a_folder_that_is_not_there_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("missing/punctual.db");
    let mut command = binary(folder.path());
    command.arg("serve").env("PUNCTUAL_STORE_URL", format!("sqlite:{}", path.display()));
    refused(command, &["no folder", "missing", "create it first"]).await;
}

#[tokio::test]
async fn a_store_of_a_newer_release_is_refused() {
    let installation = Installation::new(&[]);
    let mut store = open(&installation.file()).await;
    let raised = sqlx::query("UPDATE meta SET value = 9999 WHERE name = 'min_compatible'");
    raised.execute(&mut store).await.expect("raised");
    store.close().await.expect("closed");
    refused(installation.command(&["serve"]), &["newer"]).await;
}
