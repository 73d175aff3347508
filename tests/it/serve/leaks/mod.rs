//! Secrets appear only where they belong. The tests use markers as secrets, exercise the service
//! with the most verbose log, and then search all written data for the markers.

mod commands;
mod stores;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::json;

use self::commands::{CommandOutputs, run_all};
use self::stores::{ETCD_PASSWORD, etcd_with_login, search_database, search_files, search_redis};
use super::world::World;
use crate::harness::certificates::Authority;
use crate::harness::client::{ApiClient, schedule};
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::servers::{PASSWORD, RedisServer, free_port, shared};
use crate::harness::target::Target;

/// Markers in headers and bodies. They must not appear in stored data or in any output of the
/// service.
const SEALED: [&str; 2] = ["marker-in-a-header", "marker-in-a-body"];
/// A marker in the query of an endpoint. It is stored in plain text but must not appear in any
/// output.
const QUERY: &str = "marker-in-a-query";
/// A marker in rejected requests.
const REFUSED: &str = "marker-that-is-refused";
/// The default secret key of the servers under test.
const KEY: &str = "dGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgISE=";
/// The password of the mail server.
const MAIL_PASSWORD: &str = "marker-of-the-mail-server";

/// Returns the settings of the service under test. `folder` is for files that they name.
fn settings(authority: &Authority, folder: &Path) -> Vec<(&'static str, String)> {
    let trusted = folder.join("authority.pem");
    fs::write(&trusted, authority.pem()).expect("written");
    let mail = format!("smtp://punctual:{MAIL_PASSWORD}@127.0.0.1:{}", free_port());
    vec![
        ("PUNCTUAL_LOG", "trace".to_owned()),
        ("PUNCTUAL_OUTBOUND_CA_FILES", trusted.display().to_string()),
        ("PUNCTUAL_TEST_FAULTS", folder.display().to_string()),
        ("PUNCTUAL_MAIL_URL", mail),
        ("PUNCTUAL_MAIL_FROM", "punctual@example.com".to_owned()),
        ("PUNCTUAL_HTTP_PUBLIC_URL", "https://punctual.example".to_owned()),
    ]
}

/// Starts a target with TLS.
async fn secure_target(authority: &Authority) -> Target {
    Target::start_tls("127.0.0.1:0", authority.server(&["127.0.0.1"]), async |mut peer| {
        loop {
            peer.request().await?;
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
        }
    })
    .await
}

/// Makes jobs succeed, retry, fail and panic, and makes rejected requests.
async fn do_everything(api: &ApiClient, authority: &Authority, folder: &Path) {
    let (target, secure) = (Recorder::start().await, secure_target(authority).await);
    let fields = json!({
        "headers": json!({ "X-Token": SEALED[0] }).to_string(),
        "body": SEALED[1],
        "maxRetries": 2,
        "signRequests": true,
    });
    // The response with the secrets is stored for the idempotency key.
    let (once, schedule) = (api.once("leaks"), schedule("http://127.0.0.1/", fields.clone()));
    let kept = once.post("/v1/schedules", &schedule).await;
    assert_eq!(kept.data()["body"], SEALED[1]);
    assert_eq!(once.post("/v1/schedules", &schedule).await.body, kept.body);
    let refused = format!("http://127.0.0.1:{}/", free_port());
    let plain = [target.url("/ok"), target.url("/seq/500,200"), target.url("/seq/404"), refused];
    for endpoint in plain.into_iter().chain([format!("https://{}/", secure.address())]) {
        let job = api.run(&format!("{endpoint}?token={QUERY}"), fields.clone()).await;
        let job = api.finished(&job).await;
        assert_eq!(job["body"], SEALED[1], "its owner reads it");
        assert!(!job["errorMessage"].to_string().contains("marker"), "{job}");
    }
    fs::write(folder.join("AfterSend"), "panic").expect("written");
    let lost = api.run(&format!("{}?token={QUERY}", target.url("/ok")), fields.clone()).await;
    assert_eq!(api.finished(&lost).await["attempts"][0]["errorCode"], "WORKER_LOST");
    let hits = target.hits();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit.header("x-token") == SEALED[0]));
    assert!(hits.iter().all(|hit| hit.headers.contains_key("webhook-signature")));
    let [hit] = &secure.requests()[..] else { panic!("one request over TLS") };
    assert_eq!(hit.header("x-token"), [SEALED[0]]);
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

/// Asserts that `content` of `source` contains none of `markers`.
fn assert_absent(source: &str, content: &[u8], markers: &[&str]) {
    let content = String::from_utf8_lossy(content);
    for marker in markers {
        if let Some(at) = content.find(marker) {
            let from = content.floor_char_boundary(at.saturating_sub(200));
            panic!("{marker} is in {source}: …{}", &content[from..at + marker.len()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_machine() {
    let (authority, folder) = (Authority::new("A"), tempfile::tempdir().expect("a folder"));
    let settings = settings(&authority, folder.path());
    let borrowed: Vec<_> = settings.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut one = Installation::new(&borrowed);
    let operations = format!("127.0.0.1:{}", free_port());
    let mut server = one.launch(&[("PUNCTUAL_OPS_LISTEN", operations.clone())]);
    server.ready().await;
    do_everything(&one.client(&server), &authority, folder.path()).await;
    let outputs = run_all(|arguments| one.command(arguments));
    let secrets = outputs.with(&[SEALED[0], SEALED[1], REFUSED, KEY, MAIL_PASSWORD, &one.key]);
    let metrics = metrics(operations.parse().expect("an address"));
    assert_absent("the metrics", metrics.as_bytes(), &secrets);
    assert_absent("the metrics", metrics.as_bytes(), &[QUERY]);
    // The server still runs, so its write-ahead log is searched, too.
    let searched = search_files(&one.data_dir(), &secrets).len();
    assert!(searched > 10_000, "there is something to search: {searched}");
    server.terminate();
    server.ended(std::time::Duration::from_secs(20)).await;
    let log = fs::read(one.folder.path().join("log-1")).expect("a log");
    search_log(&log, &outputs, &secrets);
}

/// Searches the log of a server and the output of commands.
fn search_log(log: &[u8], outputs: &CommandOutputs, secrets: &[&str]) {
    let text = String::from_utf8_lossy(log);
    for part in ["TRACE", "rustls", "a test wants it"] {
        assert!(text.contains(part), "the most verbose log contains {part}");
    }
    assert_absent("the log", log, secrets);
    assert_absent("the log", log, &[QUERY]);
    outputs.search(secrets);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cluster() {
    let (authority, folder) = (Authority::new("A"), tempfile::tempdir().expect("a folder"));
    // It writes each command to disk at once, and a snapshot on request.
    let redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    let etcd = etcd_with_login().await;
    let mut world = World::new(&[]).await;
    for (name, value) in settings(&authority, folder.path()) {
        world.set(name, value);
    }
    world.set("PUNCTUAL_QUEUE_URL", redis.url());
    world.set("PUNCTUAL_CLUSTER_URL", etcd.url(&format!("root:{ETCD_PASSWORD}@")));
    let key = world.key();
    let replica = world.replica(&[]).await;
    do_everything(&replica.client(&key), &authority, folder.path()).await;
    let outputs = run_all(|arguments| world.command(arguments));
    let database: url::Url = shared("PUNCTUAL_TEST_POSTGRES").parse().expect("a URL");
    let servers = [database.password().expect("a password"), PASSWORD, ETCD_PASSWORD];
    let secrets = outputs.with(&[SEALED[0], SEALED[1], REFUSED, KEY, MAIL_PASSWORD, &key]);
    let secrets = [&secrets[..], &servers].concat();
    let metrics = metrics(replica.operations());
    assert_absent("the metrics", metrics.as_bytes(), &secrets);
    assert_absent("the metrics", metrics.as_bytes(), &[QUERY]);
    search_redis(&redis, &world.prefix, &[&secrets[..], &[QUERY]].concat()).await;
    search_database(&world, &secrets).await;
    search_log(replica.read_log().as_bytes(), &outputs, &secrets);
    replica.stop().await;
    let files = search_files(redis.folder(), &[&secrets[..], &[QUERY]].concat());
    let has = |part: &str| files.windows(part.len()).any(|bytes| bytes == part.as_bytes());
    assert!(has(&world.prefix) && has("ZADD") && has("REDIS0"), "there is something to search");
}
