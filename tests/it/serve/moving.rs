//! The move from a single machine to a cluster: `punctual copy`.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::domain::Timestamp;
use punctual::store::Table;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, SqliteConnection};

use super::world::{SHARDS, World};
use crate::harness::client::{ApiClient, schedule};
use crate::harness::database::run;
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{until, within};

/// Returns the command that copies an installation to the cluster of a world.
fn copy(world: &World, from: &Installation) -> Command {
    let from = format!("sqlite:{}", from.file().display());
    world.command(&["copy", "--from", &from, "--to", &world.database.url()])
}

/// Runs a copy that must succeed. Returns for each table its name, its rows in the source and in
/// the target, and the rows that were written.
fn copied(world: &World, from: &Installation) -> Vec<(String, u64, u64, u64)> {
    let mut command = copy(world, from);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let plain = said.lines().all(|line| line.ends_with(" rows") && !line.contains('\u{1b}'));
    assert!(plain, "nothing is drawn without a terminal: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [name, numbers @ ..] = &cells[..] else { return None };
        let numbers: Vec<u64> = numbers.iter().filter_map(|cell| cell.parse().ok()).collect();
        let [source, target, written] = numbers[..] else { return None };
        Some(((*name).to_owned(), source, target, written))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    assert_eq!(rows.len(), Table::ALL.len(), "{text}");
    assert!(rows.iter().all(|(_, source, target, _)| source == target), "{text}");
    assert!(text.contains(&format!("with {SHARDS} shards")), "{text}");
    rows
}

async fn open(installation: &Installation) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(installation.file());
    options.connect().await.expect("opened")
}

/// Returns all data of an account: schedules, skips, and jobs with their attempts.
async fn everything(api: &ApiClient) -> Value {
    let schedules = api.get("/v1/schedules?pageSize=100").await.data().clone();
    let mut skips = Vec::new();
    for schedule in schedules.as_array().expect("schedules") {
        let id = schedule["id"].as_str().expect("an id");
        skips.push(api.get(&format!("/v1/schedules/{id}/skips")).await.data().clone());
    }
    let mut jobs = Vec::new();
    for job in api.jobs("").await {
        jobs.push(api.job(job["id"].as_str().expect("an id")).await);
    }
    json!({ "schedules": schedules, "skips": skips, "jobs": jobs })
}

/// Creates schedules and jobs. All ticks are far in the future, so the data does not change.
async fn fill(api: &ApiClient, target: &Recorder) -> Vec<String> {
    let mut jobs = Vec::new();
    let odd = json!({ "name": "ünï \\u0000 \"quoted\" \n", "body": "{\"a\": \"\\u0041\"}",
                      "headers": "{\"x-one\": \"1\"}", "expectedStatusCodes": "200" });
    for fields in [odd, json!({ "maxRetries": 3 })] {
        for path in ["/ok", "/seq/500,200", "/raw/00ff22", "/size/70000"] {
            let schedule = api.create(&target.url(path), fields.clone()).await;
            jobs.push(api.trigger(&schedule).await);
        }
    }
    for job in &jobs {
        api.finished(job).await;
    }
    let off = json!({ "isEnabled": false, "overlapPolicy": "skip" });
    api.create(&target.url("/ok"), off).await;
    jobs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_moved_and_a_second_copy_changes_nothing() {
    let target = Recorder::start().await;
    let (world, mut one) = (World::new(&[]).await, Installation::new(&[]));
    let mut server = one.serve().await;
    let api = one.client(&server);
    fill(&api, &target).await;
    let before = everything(&api).await;
    server.terminate();
    server.ended(Duration::from_secs(20)).await;
    add_what_takes_long(&one).await;
    add_users(&one).await;
    add_alerts(&one).await;
    let first = copied(&world, &one);
    assert!(first.iter().all(|(_, source, _, written)| source == written), "{first:?}");
    assert!(first.iter().all(|(_, source, ..)| *source > 0), "every table is tried: {first:?}");
    let second = copied(&world, &one);
    assert!(second.iter().all(|(.., written)| *written == 0), "{second:?}");
    assert_alerts_moved(&world, &one).await;

    let replica = world.replica(&[]).await;
    let moved = everything(&replica.client(&one.key)).await;
    for part in ["schedules", "jobs"] {
        assert_eq!(moved[part], before[part], "{part}");
    }
    let users = world.run(&["user", "list"]);
    assert!(users.contains("ann@example.com"), "{users}");
    assert_eq!(users, one.run(&["user", "list"]));
    let skips = moved["skips"].as_array().expect("skips").iter();
    let skips: Vec<_> = skips.filter_map(|page| page["skips"].get(0)).collect();
    assert_eq!(skips.len(), 1, "{skips:?}");
    assert_eq!((&skips[0]["count"], &skips[0]["reason"]), (&json!(7), &json!("overlap")));
}

/// Adds a skip, an exhausted month, an idempotency key and an orphaned job.
async fn add_what_takes_long(installation: &Installation) {
    let mut store = open(installation).await;
    let sql = "INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
               SELECT account_id, id, created_at, created_at + 60000, 7, 'overlap'
               FROM schedules LIMIT 1";
    store.execute(sql).await.expect("inserted");
    let sql = "INSERT INTO account_months (account_id, month, reserved, exhausted_at)
               SELECT id, 203001, 5, 1893456000000 FROM accounts";
    store.execute(sql).await.expect("inserted");
    let sql = "INSERT INTO idempotency_keys (id, account_id, request, holder, reserved_at, answer)
               SELECT randomblob(16), id, randomblob(32), randomblob(16), 7, '{}' FROM accounts";
    store.execute(sql).await.expect("inserted");
    // A running job of an unknown account, with a claim that ends far in the future.
    let sql = "INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                                 attempt_number, max_attempts, wake_at, claimed_by, created_at,
                                 updated_at)
               SELECT randomblob(16), randomblob(16), id, version_id, shard, 1, 1, 1, 1,
                      9000000000000, randomblob(16), created_at, updated_at
               FROM schedules LIMIT 1";
    store.execute(sql).await.expect("inserted");
    store.close().await.expect("closed");
}

/// Adds a user, and one row of each kind about users.
async fn add_users(installation: &Installation) {
    let made = installation.run(&["user", "create", "ann@example.com", "--account", "first"]);
    assert_eq!(made.trim().len(), 24, "a password: {made}");
    installation.run(&["account", "create", "gone"]);
    installation.run(&["account", "delete", "gone", "--yes", "--no-wait"]);
    let mut store = open(installation).await;
    for sql in [
        "INSERT INTO invitations SELECT randomblob(16), account_id, 'bob@example.com', 'member',
             randomblob(32), 1, 9000000000000 FROM memberships",
        "INSERT INTO identities SELECT randomblob(16), id, 'https://id.example', '7', 1 FROM users",
        "INSERT INTO sessions SELECT randomblob(16), id, randomblob(32), 1, 2, 3 FROM users",
        "INSERT INTO password_resets SELECT randomblob(16), id, randomblob(32), 1, 2 FROM users",
    ] {
        store.execute(sql).await.expect("inserted");
    }
    store.close().await.expect("closed");
}

/// Adds a row of each kind about alerts, with a value in each column.
async fn add_alerts(installation: &Installation) {
    let mut store = open(installation).await;
    for sql in [
        "INSERT INTO notification_channels
         SELECT randomblob(16), id, 'slack', 'öps', 'config', 3, 0, 'left', 4, 5, 6, 7, 8, 9, 10,
                randomblob(16) FROM accounts",
        "INSERT INTO notification_preferences
         SELECT id, account_id, 'failure', 2, 1, 60, 'gone' FROM schedules LIMIT 2",
        "INSERT INTO preference_channels
         SELECT s.id, row_number() OVER (PARTITION BY s.id), s.account_id, c.id
         FROM schedules AS s CROSS JOIN notification_channels AS c",
        "INSERT INTO notification_events
         SELECT randomblob(16), account_id, id, randomblob(16), 'job.failed', 1, -7, 2, 1, name
         FROM schedules",
        "INSERT INTO notification_incidents
         SELECT randomblob(16), account_id, id, -7, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                randomblob(16), randomblob(16), '[\"a\"]' FROM notification_channels",
        "INSERT INTO incident_schedules
         SELECT randomblob(16), account_id, id, randomblob(16), 1 FROM notification_incidents",
        "INSERT INTO notification_deliveries
         SELECT randomblob(16), account_id, randomblob(16), randomblob(16), schedule_id, job_id,
                randomblob(16), randomblob(16), randomblob(16), 'job.failed', 4, 5, 6, 7, 500, 1,
                2, 3, 4, 5, 6, 'name', 'TIMEOUT', 'no \"answer\"', '{}' FROM notification_events",
        "INSERT INTO delivery_tries
         SELECT id, 1, account_id, 1, 2, 500, 'TIMEOUT', 'late', 'said'
         FROM notification_deliveries",
        "UPDATE schedule_state SET alert_on = 5, alert_threshold = 2, alert_repeat_minutes = 60,
             alerted_at = 7",
    ] {
        store.execute(sql).await.expect("inserted");
    }
    store.close().await.expect("closed");
}

/// Asserts that each column of those rows, and of the hours, was copied unchanged.
async fn assert_alerts_moved(world: &World, installation: &Installation) {
    let (mut here, mut there) = (open(installation).await, world.second_connection().await);
    let columns = async |store: &mut SqliteConnection, table: &str| {
        let query = "SELECT name, type FROM pragma_table_info($1) ORDER BY name";
        let columns = sqlx::query_as(query).bind(table.to_owned()).fetch_all(store).await;
        let columns: Vec<(String, String)> = columns.expect("read");
        columns
    };
    let alerts = Table::ALL.into_iter().filter(|table| {
        let name = table.name();
        [
            "account_hours",
            "notification_",
            "preference_",
            "incident_",
            "delivery_",
            "schedule_state",
        ]
        .iter()
        .any(|start| name.starts_with(start))
    });
    for name in alerts.map(Table::name) {
        let columns = columns(&mut here, name).await;
        let columns: Vec<_> = columns.into_iter().filter(|(column, _)| column != "shard").collect();
        let ours = columns.iter().map(|(column, kind)| match kind.as_str() {
            "BLOB" => format!("lower(hex({column}))"),
            _ => format!("CAST({column} AS text)"),
        });
        let theirs = columns.iter().map(|(column, _)| {
            let text = format!("to_jsonb({column}) #>> '{{}}'");
            format!("CASE {text} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {text} END")
        });
        // PostgreSQL prints an id with dashes.
        let theirs = theirs.zip(&columns).map(|(text, (_, kind))| match kind.as_str() {
            "BLOB" => format!("replace({text}, '-', '')"),
            _ => text,
        });
        let read = |columns: Vec<String>| {
            let columns: Vec<_> =
                columns.iter().map(|column| format!("coalesce({column}, '')")).collect();
            format!("SELECT {} FROM {name} ORDER BY 1", columns.join(" || '|' || "))
        };
        let ours = sqlx::query_scalar(AssertSqlSafe(read(ours.collect()))).fetch_all(&mut here);
        let theirs =
            sqlx::query_scalar(AssertSqlSafe(read(theirs.collect()))).fetch_all(&mut there);
        let (mut ours, mut theirs): (Vec<String>, Vec<String>) =
            (ours.await.expect("read"), theirs.await.expect("read"));
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{name}");
    }
}

/// The owner of the database needs no further rights in PostgreSQL. Its password may be in a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_of_the_database_is_enough() {
    let target = Recorder::start().await;
    let (mut world, mut one) = (World::new(&[]).await, Installation::new(&[]));
    let mut server = one.serve().await;
    let schedule = one.client(&server).create(&target.url("/ok"), json!({})).await;
    server.terminate();
    server.ended(Duration::from_secs(20)).await;
    let url = world.database.url();
    let (server, database) = url.rsplit_once('/').expect("a database");
    let owner = format!("owner_of_{database}");
    let sql = format!(
        "CREATE ROLE {owner} LOGIN PASSWORD 'hunter2'; ALTER DATABASE {database} OWNER TO {owner}"
    );
    run(&mut world.second_connection().await, &sql).await;
    let (_, host) = server.rsplit_once('@').expect("a user");
    let file = world.folder.path().join("password");
    std::fs::write(&file, "hunter2\n").expect("written");
    let url = format!("postgres://{owner}@{host}/{database}");
    world.set("PUNCTUAL_STORE_URL", url.clone());
    world.set("PUNCTUAL_STORE_PASSWORD_FILE", file.to_str().expect("text"));
    let from = format!("sqlite:{}", one.file().display());
    let said = world.run(&["copy", "--from", &from, "--to", &url]);
    assert!(said.contains("Everything is in"), "{said}");
    assert!(said.contains("1 schedules kept their next ticks"), "{said}");

    let replica = world.replica(&[]).await;
    let api = replica.client(&one.key);
    let job = api.trigger(&schedule).await;
    assert_eq!(api.finished(&job).await["status"], "SUCCESS");
    assert!(world.run(&["cluster"]).contains("store.url    ok"));
}

/// The source runs between two copies. The second copy brings new, changed and deleted rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_copy_moves_the_changes() {
    let target = Recorder::start().await;
    let (world, mut one) = (World::new(&[]).await, Installation::new(&[]));
    let mut server = one.serve().await;
    let jobs = fill(&one.client(&server), &target).await;
    server.terminate();
    server.ended(Duration::from_secs(20)).await;
    copied(&world, &one);

    let mut server = one.serve().await;
    let api = one.client(&server);
    let schedules = api.get("/v1/schedules?pageSize=100").await.data().clone();
    let schedules = schedules.as_array().expect("schedules").clone();
    let id = |index: usize| schedules[index]["id"].as_str().expect("an id").to_owned();
    let gone = api.call("DELETE", &format!("/v1/schedules/{}", id(0)), None).await;
    assert_eq!(gone.expect("an answer").status, 200);
    let changed = json!({ "name": "changed" });
    let changed = api.call("PATCH", &format!("/v1/schedules/{}", id(1)), Some(&changed)).await;
    changed.expect("an answer").data();
    let new = api.run(&target.url("/ok"), json!({ "name": "new" })).await;
    api.finished(&new).await;
    let before = everything(&api).await;
    server.terminate();
    server.ended(Duration::from_secs(20)).await;

    let rows = copied(&world, &one);
    let written: u64 = rows.iter().map(|(.., written)| written).sum();
    // The lease of the second process is new, too, and the job is counted in an hour.
    assert!((1..14).contains(&written), "only changed rows: {rows:?}");
    let replica = world.replica(&[]).await;
    let api = replica.client(&one.key);
    let moved = everything(&api).await;
    assert_eq!(moved["schedules"], before["schedules"]);
    assert_eq!(moved["jobs"], before["jobs"]);
    assert_eq!(moved["jobs"].as_array().map(Vec::len), Some(jobs.len() + 1));
}

/// Jobs that are running or waiting when the machine is stopped finish in the cluster, within their
/// maximum number of attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_jobs_come_to_their_end() {
    let target = Recorder::start().await;
    let world = World::new(&[]).await;
    let mut one = Installation::new(&[
        ("PUNCTUAL_RETRY_BASE_MS", "4000"),
        ("PUNCTUAL_RETRY_CAP_MS", "4000"),
        ("PUNCTUAL_EXECUTOR_PER_ACCOUNT", "2"),
    ]);
    let server = one.serve().await;
    let api = one.client(&server);
    let retried = api.run(&target.url("/seq/500,200"), json!({ "maxRetries": 2 })).await;
    until("the first job waits for a retry", async || {
        let job = api.job(&retried).await;
        (job["status"] == "PENDING" && job["attemptNumber"] == 1).then_some(())
    })
    .await;
    let hang = api.create(&target.url("/hang"), json!({ "maxRetries": 2 })).await;
    let running = [api.trigger(&hang).await, api.trigger(&hang).await];
    until("both hanging attempts are sent", async || (target.count() == 3).then_some(())).await;
    let queued = api.trigger(&hang).await;
    server.kill();
    copied(&world, &one);
    target.release();

    let replica = world.replica(&[]).await;
    let api = replica.client(&one.key);
    for (job, attempts) in [(&retried, 2), (&running[0], 2), (&running[1], 2), (&queued, 1)] {
        let ended = api.finished_within(Duration::from_secs(40), job).await;
        let (status, number) = (&ended["status"], &ended["attemptNumber"]);
        assert_eq!((status, number), (&json!("SUCCESS"), &json!(attempts)), "{ended}");
        assert_eq!(target.hits_of(job).len(), attempts, "{ended}");
    }
}

/// The next ticks fire once and on time, and earlier ticks are not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_where_they_were() {
    const SCHEDULES: usize = 30;
    let target = Recorder::start().await;
    let (world, mut one) = (World::new(&[]).await, Installation::new(&[]));
    let mut server = one.serve().await;
    let api = one.client(&server);
    // There is enough time after the last full minute to create all schedules, and before the next
    // one to move them.
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    within(
        Duration::from_secs(60),
        "the time is between seconds 45 and 55 of a minute",
        async || (wall() % 60_000 > 45_000 && wall() % 60_000 < 55_000).then_some(()),
    )
    .await;
    let fields = json!({ "cronExpression": "* * * * *" });
    let batch = vec![schedule(&target.url("/ok"), fields); SCHEDULES];
    api.post("/v1/schedules/bulk", &batch.into()).await.data();
    within(Duration::from_secs(30), "each schedule has a successful job", async || {
        let jobs = api.jobs("status=SUCCESS").await;
        (jobs.len() == SCHEDULES).then_some(())
    })
    .await;
    let fired = api.jobs("").await;
    server.terminate();
    server.ended(Duration::from_secs(20)).await;
    copied(&world, &one);
    let replica = world.replica(&[]).await;
    let api = replica.client(&one.key);
    within(Duration::from_secs(70), "each schedule has a second successful job", async || {
        let jobs = api.jobs("status=SUCCESS").await;
        (jobs.len() >= 2 * SCHEDULES).then_some(())
    })
    .await;
    let jobs = api.jobs("").await;
    assert_eq!(jobs.len(), 2 * SCHEDULES, "one job for each tick");
    assert_eq!(target.count(), 2 * SCHEDULES, "one request for each job");
    let before: Vec<_> = fired.iter().map(|job| job["id"].clone()).collect();
    for job in jobs.iter().filter(|job| !before.contains(&job["id"])) {
        let tick: Timestamp =
            job["scheduledRunAtUtc"].as_str().expect("text").parse().expect("an instant");
        let hit = target.hits_of(job["id"].as_str().expect("an id"));
        let late = hit[0].wall_ms - tick.as_millis();
        assert_eq!(tick.as_millis() % 60_000, 0, "{job}");
        // A tick that its first instant missed would fire when the next one is due.
        assert!((0..10_000).contains(&late), "late by {late} ms: {job}");
    }
    let shards: Vec<i32> = sqlx::query_scalar("SELECT DISTINCT shard FROM schedules")
        .fetch_all(&mut world.second_connection().await)
        .await
        .expect("asked");
    assert!(shards.len() > 1, "they are spread over the shards: {shards:?}");
}

/// Replicas wait while a copy is incomplete, until another copy completes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_copy_is_finished_by_another() {
    const JOBS: i64 = 10_000;
    let (world, one) = (World::new(&[]).await, Installation::new(&[]));
    let mut store = open(&one).await;
    let sql = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
         INSERT INTO jobs (id, account_id, schedule_id, version_id, status, trigger,
                           max_attempts, created_at, updated_at, completed_at, response)
         SELECT unhex(printf('%012x%020x', 1700000000000 + i * 1000, i)), a.id, randomblob(16),
                randomblob(16), 2, 0, 1, i, i, i, hex(randomblob(200))
         FROM n, accounts AS a"
    );
    store.execute(AssertSqlSafe(sql)).await.expect("inserted");
    store.close().await.expect("closed");
    world.run(&["migrate"]);
    // The copy takes at least ten seconds, and is interrupted before its end.
    let slow = "CREATE FUNCTION slow () RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END';
                CREATE TRIGGER slow BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION slow ()";
    run(&mut world.second_connection().await, slow).await;
    let mut copying = copy(&world, &one).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut other_session = world.second_connection().await;
    within(Duration::from_secs(60), "more than 2,000 jobs are copied", async || {
        assert!(copying.try_wait().expect("a child").is_none(), "done too soon");
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM jobs");
        (count.fetch_one(&mut other_session).await.ok()? > 2_000).then_some(())
    })
    .await;
    copying.kill().expect("a child");
    copying.wait().expect("a child");
    run(&mut world.second_connection().await, "DROP TRIGGER slow ON jobs").await;

    let mut replica = world.start(&[]).await;
    replica.wait_for_log("run `punctual copy` again").await;
    assert_eq!(replica.ask("/readyz").await.status, 503);
    assert_eq!(replica.ask("/healthz").await.status, 200);
    let rows = copied(&world, &one);
    let jobs = rows.iter().find(|(table, ..)| table == "jobs");
    let (_, source, target, written) = jobs.expect("the table");
    assert_eq!((source, target), (&JOBS.unsigned_abs(), &JOBS.unsigned_abs()));
    assert!((1..=JOBS.unsigned_abs() - 2_000).contains(written), "{rows:?}");
    replica.ready().await;
}

/// Runs a copy that must fail. Returns its error output.
async fn refused(command: Command) -> String {
    let (status, said) = crate::harness::process::run_to_end(command).await;
    assert!(matches!(status, Some(1 | 2)), "{status:?}: {said}");
    assert!(said.contains("error: "), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_refused_where_it_would_do_harm() {
    let (world, mut one) = (World::new(&[]).await, Installation::new(&[]));
    let server = one.serve().await;
    let said = refused(copy(&world, &one)).await;
    assert!(said.contains("must not be in use") && said.contains("--from"), "{said}");
    server.kill();

    let from = format!("sqlite:{}", one.file().display());
    let nowhere =
        world.command(&["copy", "--from", "sqlite:/no/such.db", "--to", "postgres://h/d"]);
    assert!(refused(nowhere).await.contains("no file /no/such.db (--from)"));
    let back = world.command(&["copy", "--from", &world.database.url(), "--to", &from]);
    let said = refused(back).await;
    assert!(said.contains("goes from sqlite:PATH (--from) to postgres://"), "{said}");
    let wrong = world.database.url().replace("punctual:", "punctual:hunter2");
    let said = refused(world.command(&["copy", "--from", &from, "--to", &wrong])).await;
    assert!(said.contains("(--to)") && said.contains("password"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");

    // The target has data of its own.
    let other = World::new(&[]).await;
    other.run(&["migrate"]);
    other.key();
    let said = refused(copy(&other, &one)).await;
    assert!(said.contains("another installation"), "{said}");
    // Replicas use the target, although it is empty.
    let busy = World::new(&[]).await;
    let _replica = busy.replica(&[]).await;
    let said = refused(copy(&busy, &one)).await;
    assert!(said.contains("stop its replicas first"), "{said}");
    // After the cluster has started on the copy, a further copy is rejected.
    copied(&world, &one);
    world.replica(&[]).await.stop().await;
    let said = refused(copy(&world, &one)).await;
    assert!(said.contains("in use since it was copied"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_is_reported() {
    let (world, one) = (World::new(&[]).await, Installation::new(&[]));
    world.run(&["migrate"]);
    run(
        &mut world.second_connection().await,
        "CREATE FUNCTION lose () RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER lose BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION lose ()",
    )
    .await;
    let said = refused(copy(&world, &one)).await;
    assert!(said.contains("the numbers of rows differ in api_keys: copy again"), "{said}");
    run(&mut world.second_connection().await, "DROP TRIGGER lose ON api_keys").await;
    copied(&world, &one);
}
