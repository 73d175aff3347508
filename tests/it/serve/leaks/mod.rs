//! Secrets are where they belong and nowhere else: markers are planted, everything is done with
//! them that can be while the log is at its most talkative, and then all that was written is
//! searched.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use sqlx::AssertSqlSafe;

use super::world::World;
use crate::harness::client::{ApiClient, schedule};
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::servers::{free_port, shared};

/// In headers and bodies: nowhere at rest, nor in what the service says of itself.
const SEALED: [&str; 2] = ["marker-in-a-header", "marker-in-a-body"];
/// In the query of an endpoint: stored as it is, but told to nobody.
const QUERY: &str = "marker-in-a-query";
/// In what is refused.
const REFUSED: &str = "marker-that-is-refused";
/// The usual key of the servers under test.
const KEY: &str = "dGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgISE=";

/// Lets jobs succeed, be tried again and fail, and requests be refused.
async fn do_everything(api: &ApiClient) {
    let target = Recorder::start().await;
    let fields = json!({
        "headers": json!({ "X-Token": SEALED[0] }).to_string(),
        "body": SEALED[1],
        "maxRetries": 2,
        "signRequests": true,
    });
    // The answer, which shows them, is kept.
    let (once, schedule) = (api.once("leaks"), schedule("http://127.0.0.1/", fields.clone()));
    let kept = once.post("/v1/schedules", &schedule).await;
    assert_eq!(kept.data()["body"], SEALED[1]);
    assert_eq!(once.post("/v1/schedules", &schedule).await.body, kept.body);
    let nobody = format!("http://127.0.0.1:{}/", free_port());
    for endpoint in [target.url("/ok"), target.url("/seq/500,200"), target.url("/seq/404"), nobody]
    {
        let job = api.run(&format!("{endpoint}?token={QUERY}"), fields.clone()).await;
        let job = api.finished(&job).await;
        assert_eq!(job["body"], SEALED[1], "its owner reads it");
        assert!(!job["errorMessage"].to_string().contains("marker"), "{job}");
    }
    let hits = target.hits();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit.header("x-token") == SEALED[0]));
    assert!(hits.iter().all(|hit| hit.headers.contains_key("webhook-signature")));
    for refused in [
        json!({ "headers": format!("{{\"X-A\": 1, {REFUSED}}}"), "body": { "a": REFUSED } }),
        json!({ "headers": json!({ "Host": REFUSED }).to_string() }),
        json!({ "endpoint": format!("http://{REFUSED}:{REFUSED}@127.0.0.1/") }),
    ] {
        let reply = api.post("/v1/schedules", &refused).await;
        assert_eq!(reply.status, 400);
        assert!(!reply.body.to_string().contains(REFUSED), "{reply:?}");
    }
    let reply = api.with_key(&format!("pnc_{REFUSED}")).get("/v1/schedules").await;
    assert_eq!(reply.status, 401);
}

/// What is secret of signing secrets that were shown one a line.
fn signing_secrets(shown: &str) -> [&str; 2] {
    let mut secrets = shown.lines().filter_map(|line| line.strip_prefix("whsec_"));
    let mut next = || secrets.next().expect("two secrets");
    [next(), next()]
}

/// As `signing_secrets` needs them.
const ROTATE: [&str; 4] = ["signing", "rotate", "--account", "first"];
const SHOW: [&str; 4] = ["signing", "show", "--account", "first"];

fn metrics(operations: SocketAddr) -> String {
    let mut stream = TcpStream::connect(operations).expect("connected");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.contains("punctual_"), "{answer}");
    answer
}

/// What a search of `place` for any of `markers` finds.
fn assert_absent(place: &str, content: &[u8], markers: &[&str]) {
    let content = String::from_utf8_lossy(content);
    for marker in markers {
        if let Some(at) = content.find(marker) {
            let from = content.floor_char_boundary(at.saturating_sub(200));
            panic!("{marker} is in {place}: …{}", &content[from..at + marker.len()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_machine() {
    let mut one = Installation::new(&[("PUNCTUAL_LOG", "trace")]);
    let operations = format!("127.0.0.1:{}", free_port());
    let mut server = one.launch(&[("PUNCTUAL_OPS_LISTEN", operations.clone())]);
    server.ready().await;
    one.run(&ROTATE);
    let shown = one.run(&SHOW);
    let [new, old] = signing_secrets(&shown);
    do_everything(&one.client(&server)).await;
    let told = [SEALED[0], SEALED[1], QUERY, REFUSED, KEY, &one.key, new, old];
    let metrics = metrics(operations.parse().expect("an address"));
    assert_absent("the metrics", metrics.as_bytes(), &told);
    let stored = [SEALED[0], SEALED[1], REFUSED, KEY, &one.key, new, old];
    // While it runs, so that the log of writes is there too.
    let mut searched = 0;
    for file in fs::read_dir(one.data_dir()).expect("a folder") {
        let path = file.expect("a file").path();
        let content = fs::read(&path).expect("read");
        searched += content.len();
        assert_absent(&path.display().to_string(), &content, &stored);
    }
    assert!(searched > 10_000, "there is something to search: {searched}");
    server.terminate();
    server.ended(std::time::Duration::from_secs(20)).await;
    let log = fs::read(one.folder.path().join("log-1")).expect("a log");
    assert!(String::from_utf8_lossy(&log).contains("TRACE"), "it says all it can");
    assert_absent("the log", &log, &told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cluster() {
    let world = World::new(&[("PUNCTUAL_LOG", "trace")]).await;
    let key = world.key();
    let replica = world.replica(&[]).await;
    world.run(&ROTATE);
    let shown = world.run(&SHOW);
    let [new, old] = signing_secrets(&shown);
    do_everything(&replica.client(&key)).await;
    let told = [SEALED[0], SEALED[1], QUERY, REFUSED, KEY, &key, new, old];
    assert_absent("the metrics", metrics(replica.operations()).as_bytes(), &told);
    search_redis(&world, &told).await;
    let stored = [SEALED[0], SEALED[1], REFUSED, KEY, &key, new, old];
    let mut beside = world.beside().await;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut beside)
            .await
            .expect("tables");
    assert!(tables.iter().any(|table| table == "schedule_versions"));
    for table in tables {
        let query = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} AS t");
        let query = sqlx::query_scalar(AssertSqlSafe(query));
        let rows: String = query.fetch_one(&mut beside).await.expect("rows");
        assert_absent(&table, rows.as_bytes(), &stored);
    }
    assert!(replica.said().contains("TRACE"), "it says all it can");
    assert_absent("the log", replica.said().as_bytes(), &told);
    replica.stop().await;
}

/// The names of all keys, and their values.
async fn search_redis(world: &World, markers: &[&str]) {
    let client = redis::Client::open(shared("PUNCTUAL_TEST_REDIS")).expect("a URL");
    let mut redis = client.get_multiplexed_async_connection().await.expect("connected");
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("*{}*", world.prefix))
        .query_async(&mut redis)
        .await
        .expect("keys");
    assert!(!keys.is_empty());
    for key in keys {
        assert_absent("the name of a key", key.as_bytes(), markers);
        let ask = async |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            words[1..].iter().for_each(|word| _ = command.arg(*word));
            command.query_async::<redis::Value>(&mut redis.clone()).await.expect("a value")
        };
        let kind = ask(&["TYPE", &key]).await;
        let value = match &kind {
            redis::Value::SimpleString(kind) if kind == "zset" => {
                ask(&["ZRANGE", &key, "0", "-1"]).await
            }
            redis::Value::SimpleString(kind) if kind == "hash" => ask(&["HGETALL", &key]).await,
            redis::Value::SimpleString(kind) if kind == "set" => ask(&["SMEMBERS", &key]).await,
            // It may have gone meanwhile.
            redis::Value::SimpleString(kind) if kind == "none" => continue,
            _ => ask(&["GET", &key]).await,
        };
        let value = format!("{value:?}");
        assert_absent(&key, value.as_bytes(), markers);
    }
}
