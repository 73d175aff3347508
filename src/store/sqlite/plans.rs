//! Checks that SQLite's planner does what the statements count on: batches look their rows up by
//! key, lists by the index meant for them, and nothing busy is scanned.

use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

use super::{Settings, SqliteStore};
use super::{claims, commit, fire, firing, job_list, overlap, runs, schedule_list, upkeep};

async fn plan(connection: &mut SqliteConnection, sql: &str) -> String {
    let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
        .fetch_all(connection)
        .await
        .expect("a statement that can be prepared");
    let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
    steps.join("\n")
}

#[tokio::test]
async fn batches_look_rows_up_by_their_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&Settings::new(folder.path().join("store"))).await.expect("open");
    store.migrate().await.expect("migrate");
    let mut connection = store.options.connect().await.expect("connect");
    for (sql, searches) in [
        (firing::CANDIDATES, 3),
        (fire::STORED, 3),
        (fire::ADVANCE, 1),
        (fire::INSERT, 0),
        (claims::CLAIM, 1),
        (claims::CLAIMABLE, 2),
        (claims::RENEW, 1),
        (commit::COMMIT, 1),
        (commit::RUNNING, 2),
        (runs::COUNT_RUNS, 1),
        (overlap::RELEASE, 1),
        (schedule_list::ROWS, 3),
        (job_list::ROWS, 2),
    ] {
        let plan = plan(&mut connection, sql).await;
        let scans: Vec<&str> = plan.lines().filter(|step| step.starts_with("SCAN")).collect();
        assert!(scans.iter().all(|scan| scan.contains("VIRTUAL TABLE")), "{sql}\n{plan}");
        let by_key = plan.lines().filter(|step| {
            step.starts_with("SEARCH")
                && (step.contains("_1 (id=?)") || step.contains("KEY (shard=? AND schedule_id=?)"))
        });
        assert_eq!(by_key.count(), searches, "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    let plan = plan(&mut connection, upkeep::PRUNE_VERSIONS).await;
    assert!(plan.contains("jobs_schedule (schedule_id=? AND id<?)"), "{plan}");
    store.close().await;
}
