//! A backup of a single machine, restored as docs/operations.md describes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::ApiClient;
use crate::harness::process::{Installation, run_to_end};
use crate::harness::recorder::Recorder;

/// Runs a statement or a command of the program `sqlite3` on a file.
fn sqlite3(file: &Path, what: &str) -> String {
    let output =
        Command::new("sqlite3").arg(file).arg(what).output().expect("sqlite3 is installed");
    assert!(output.status.success(), "{what}: {output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Returns the number before a word.
fn number_before(text: &str, word: &str) -> u64 {
    let (before, _) = text.split_once(word).unwrap_or_else(|| panic!("{word:?} in {text:?}"));
    before.split_whitespace().next_back().expect("a word").parse().expect("a number")
}

/// Returns the only skip of a schedule, which covers the time between the backup and its restore.
async fn skip(api: &ApiClient, schedule: &str) -> Value {
    let page = api.get(&format!("/v1/schedules/{schedule}/skips")).await.data().clone();
    let skips = page["skips"].as_array().expect("skips");
    assert_eq!(skips.len(), 1, "{page}");
    skips[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_file_continues_and_runs_nothing_twice() {
    let target = Recorder::start().await;
    let mut one = Installation::new(&[]);
    let mut server = one.serve().await;
    let api = one.client(&server);
    let each_minute = json!({ "cronExpression": "* * * * *", "catchUpPolicy": "all" });
    let schedule = api.create(&target.url("/ok"), each_minute).await;
    let kept = api.trigger(&schedule).await;
    api.finished(&kept).await;
    let copy = one.folder.path().join("copy.db");
    sqlite3(&one.file(), &format!(".backup {}", copy.display()));
    let lost = api.trigger(&schedule).await;
    api.finished(&lost).await;
    let (status, said) = run_to_end(one.command(&["restored"])).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("another server uses"), "{said}");
    server.terminate();
    server.ended(Duration::from_secs(20)).await;

    // This makes the backup look nine minutes old.
    let nine_ago = "next_tick - next_tick % 60000 - 600000";
    sqlite3(&copy, &format!("UPDATE schedule_state SET next_tick = {nine_ago}"));
    for beside in ["punctual.db-wal", "punctual.db-shm"] {
        // A clean stop leaves no such file.
        let _ = fs::remove_file(one.data_dir().join(beside));
    }
    fs::copy(&copy, one.file()).expect("copied");
    let said = one.run(&["restored"]);
    let ticks = number_before(&said, "ticks of 1 schedules");
    assert!((10..12).contains(&ticks), "{said}");
    assert!(said.contains("0 jobs were unfinished"), "{said}");
    assert!(one.run(&["restored"]).starts_with("0 ticks of 0 schedules"));

    let mut server = one.serve().await;
    let api = one.client(&server);
    let skip = skip(&api, &schedule).await;
    assert_eq!((&skip["count"], &skip["reason"]), (&json!(ticks), &json!("restored")));
    let new = api.trigger(&schedule).await;
    assert_eq!(api.finished(&new).await["status"], "SUCCESS");
    let jobs = api.jobs("").await;
    let ids: Vec<_> = jobs.iter().filter_map(|job| job["id"].as_str()).collect();
    assert!(ids.contains(&kept.as_str()) && !ids.contains(&lost.as_str()), "{ids:?}");
    assert!(jobs.iter().all(|job| job["trigger"] != "catch_up"), "{jobs:?}");
    server.terminate();
    server.ended(Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_a_start_is_no_backup() {
    let one = Installation::new(&[]);
    let (status, said) = run_to_end(one.command(&["restored"])).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no service has ever used this store"), "{said}");
}
