//! `punctual doctor` with servers that are healthy, faulty or silent, or that restrict the user.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::world::World;
use crate::harness::certificates::Authority;
use crate::harness::database::run;
use crate::harness::link::{Link, Mood};
use crate::harness::postgres::PostgresServer;
use crate::harness::servers::{RedisServer, shared};

/// The maximum duration when all servers are silent.
const BOUND: Duration = Duration::from_secs(30);

/// The findings: each has a result, a setting and a text.
struct DoctorReport {
    status: Option<i32>,
    found: Vec<[String; 3]>,
    text: String,
}

impl DoctorReport {
    /// Asserts a finding with this result and setting, whose text contains `part`.
    #[track_caller]
    fn has(&self, result: &str, setting: &str, part: &str) {
        let is =
            |one: &&[String; 3]| one[0] == result && one[1] == setting && one[2].contains(part);
        assert!(self.found.iter().any(|one| is(&one)), "no {result} {part:?}: {:#?}", self.found);
    }

    fn failures(&self) -> Vec<&[String; 3]> {
        self.found.iter().filter(|one| one[0] == "failure").collect()
    }
}

/// Runs the doctor with these settings in addition to those of the cluster.
async fn doctor(world: &World, options: &[&str], settings: &[(&str, &str)]) -> DoctorReport {
    let mut command = world.command(&["doctor", "--json"]);
    command.args(options).envs(settings.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ends");
    let output = output.expect("it runs");
    let found: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let text = |one: &Value, name: &str| one[name].as_str().expect("text").to_owned();
    DoctorReport {
        status: output.status.code(),
        found: found
            .iter()
            .map(|one| ["result", "setting", "text"].map(|of| text(one, of)))
            .collect(),
        text: format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_and_after_installing_all_is_well_and_nothing_is_changed() {
    let world = World::new(&[]).await;
    let before = doctor(&world, &[], &[]).await;
    assert_eq!((before.status, before.failures()), (Some(0), vec![]), "{}", before.text);
    before.has("ok", "store.url", "PostgreSQL ");
    before.has("ok", "store.url", "it has not been set up");
    before.has("ok", "store.url", "the clocks are ");
    before.has("ok", "store.url", "1 replicas open up to 36");
    // `tests/servers` starts it this way. A warning is not a failure.
    before.has("warning", "store.url", "fsync is off");
    before.has("ok", "queue.url", "Redis ");
    before.has("ok", "queue.url", "maxmemory-policy is noeviction");
    // A slow disk gets a warning with the same text.
    let of_write = |one: &[String; 3]| one[1] == "cluster.url" && one[2].contains("a write takes ");
    assert!(before.found.iter().any(of_write), "{}", before.text);
    let members = shared("PUNCTUAL_TEST_ETCD");
    for member in members.trim_start_matches("etcd://").split(',') {
        before.has("ok", "cluster.url", &format!("at http://{member} answers in "));
    }
    let tables =
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables.fetch_one(&mut world.second_connection().await).await.expect("counted"), 0);
    let client = redis::Client::open(shared("PUNCTUAL_TEST_REDIS")).expect("an address");
    let mut line = client.get_multiplexed_async_connection().await.expect("it answers");
    let left: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{}:checkup*", world.prefix))
        .query_async(&mut line)
        .await
        .expect("listed");
    assert_eq!(left, Vec::<String>::new());

    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let after = doctor(&world, &[], &[]).await;
    assert_eq!((after.status, after.failures()), (Some(0), vec![]), "{}", after.text);
    after.has("ok", "store.url", "the tables are up to date");
    after.has("ok", "store.url", "2 replicas open up to 72");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_finding_is_reported_with_a_remedy() {
    let redis = RedisServer::start(&["--maxmemory", "100mb"]).await;
    let policy = |policy: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory-policy").arg(policy);
        set
    };
    let _: () = redis.run(&policy("allkeys-lru")).await;
    let world = World::new(&[]).await;
    let url = redis.url();
    let settings = [
        ("PUNCTUAL_QUEUE_URL", url.as_str()),
        ("PUNCTUAL_STORE_MIGRATE", "false"),
        ("PUNCTUAL_TEST_CLOCK", "0,1,-90000,0"),
    ];
    let report = doctor(&world, &["--replicas", "40"], &settings).await;
    assert_eq!(report.status, Some(1), "{}", report.text);
    report.has("warning", "queue.url", "maxmemory-policy is allkeys-lru: set it to noeviction");
    report.has("warning", "store.url", "clock is 90.");
    report.has("failure", "store.url", "it has not been set up: run `punctual migrate`");
    report.has("failure", "store.url", "40 replicas open up to 1440 (36 each): set it to ");
    let complaint = "error: checks failed for 1 setting: store.url\n";
    assert!(report.text.contains(complaint), "{}", report.text);
}

/// The rights that the README names are sufficient, and fewer are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_rights_are_reported() {
    let redis = RedisServer::start(&[]).await;
    let world = World::new(&[]).await;
    let keys = format!("~{}:*", world.prefix);
    for (name, rule) in [("enough", "+@all"), ("less", "+ping")] {
        let mut user = redis::cmd("ACL");
        user.arg("SETUSER").arg(name).arg("on").arg(">hunter2").arg(&keys);
        user.arg(format!("&{}:*", world.prefix)).arg(rule).arg("-@dangerous").arg("+info");
        let _: () = redis.run(&user).await;
    }
    let mut other_session = world.second_connection().await;
    let user = format!("user_{}", world.prefix.replace('-', "_"));
    run(&mut other_session, &format!("CREATE USER {user} PASSWORD 'hunter2'")).await;
    let mut store: Url = world.database.url().parse().expect("a URL");
    store.set_username(&user).expect("set");
    store.set_password(Some("hunter2")).expect("set");
    let queue = |user: &str| format!("redis://{user}:hunter2@127.0.0.1:{}", redis.port);

    let less = [("PUNCTUAL_STORE_URL", store.as_str()), ("PUNCTUAL_QUEUE_URL", &queue("less"))];
    let report = doctor(&world, &[], &less).await;
    assert_eq!(report.status, Some(1), "{}", report.text);
    report.has("failure", "store.url", "let it own the database");
    report.has("failure", "queue.url", "needs more rights");
    assert!(!report.text.contains("hunter2"), "{}", report.text);

    let name = world.database.url().rsplit_once('/').expect("a name").1.to_owned();
    run(&mut other_session, &format!("ALTER DATABASE {name} OWNER TO {user}")).await;
    run(&mut other_session, &format!("ALTER SCHEMA public OWNER TO {user}")).await;
    let enough = [("PUNCTUAL_STORE_URL", store.as_str()), ("PUNCTUAL_QUEUE_URL", &queue("enough"))];
    let report = doctor(&world, &[], &enough).await;
    assert_eq!((report.status, report.failures()), (Some(0), vec![]), "{}", report.text);
    // The user cannot change tables of another user.
    world.run(&["migrate"]);
    let report = doctor(&world, &[], &enough).await;
    report.has("failure", "store.url", "the user does not own all tables (");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_hang_are_waited_for_within_bounds() {
    let world = World::new(&[]).await;
    let store: Url = world.database.url().parse().expect("a URL");
    let redis: Url = shared("PUNCTUAL_TEST_REDIS").parse().expect("a URL");
    let members = shared("PUNCTUAL_TEST_ETCD");
    let member = members.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let link = async |url: &Url| Link::start(url.port().expect("a port")).await;
    let links = [link(&store).await, link(&redis).await, Link::start(member).await];
    links.iter().for_each(|link| link.set(Mood::Silent));
    let through = |mut url: Url, link: &Link| {
        url.set_port(Some(link.port)).expect("it has a host");
        String::from(url)
    };
    let (store, redis) = (through(store, &links[0]), through(redis, &links[1]));
    let etcd = format!("etcd://127.0.0.1:{}", links[2].port);
    let settings = [
        ("PUNCTUAL_STORE_URL", store.as_str()),
        ("PUNCTUAL_QUEUE_URL", &redis),
        ("PUNCTUAL_CLUSTER_URL", &etcd),
    ];
    let begun = Instant::now();
    let report = doctor(&world, &[], &settings).await;
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(report.status, Some(1), "{}", report.text);
    report.has("failure", "store.url", "does not answer");
    report.has("failure", "queue.url", "did not answer in time");
    report.has("failure", "cluster.url", "did not answer in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_looked_at() {
    let authority = Authority::new("doctor");
    let (postgres, file) = PostgresServer::start_with_tls(&authority).await;
    let expired = TlsAcceptor::from(Arc::new(authority.expired_server(&["127.0.0.1"])));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that only reads the certificate ends the handshake.
            let _ = expired.accept(stream).await;
        }
    });
    let world = World::new(&[]).await;
    let (ca, queue) = (file.to_str().expect("text"), format!("rediss://127.0.0.1:{port}"));
    let store = format!("{}?sslmode=verify-full&sslrootcert={ca}", postgres.url());
    let settings = [
        ("PUNCTUAL_STORE_URL", store.as_str()),
        ("PUNCTUAL_QUEUE_URL", &queue),
        ("PUNCTUAL_QUEUE_CA_FILE", ca),
    ];
    let report = doctor(&world, &[], &settings).await;
    let of_store = format!("the certificate of 127.0.0.1:{} is valid until ", postgres.port);
    report.has("ok", "store.url", &of_store);
    let over = format!("the certificate of 127.0.0.1:{port} has expired at 2020-02-01");
    report.has("failure", "queue.url", &over);
    // Each setting names the file that is trusted for its server.
    for setting in ["store.url", "queue.ca_file"] {
        report.has("ok", setting, "a certificate of the authorities is valid until ");
    }
    accepting.abort();
}
