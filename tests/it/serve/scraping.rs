//! A scrape of the metrics does not call any server.

use std::time::{Duration, Instant};

use super::world::World;
use crate::harness::link::{Link, Mood};
use crate::harness::servers::shared;

const SCRAPES: usize = 50;
/// The maximum duration of all scrapes. A scrape that waits for a server takes at least a second.
const BOUND: Duration = Duration::from_secs(25);

/// Returns the port in a URL with one host on this machine.
fn port(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once("127.0.0.1:").expect("loopback");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a port")
}

/// Silent servers, which are worse than stopped ones, do not delay a scrape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_waits_for_no_server() {
    let mut world = World::new(&[]).await;
    let (store, queue) = (world.database.url(), shared("PUNCTUAL_TEST_REDIS"));
    let etcd = shared("PUNCTUAL_TEST_ETCD");
    let member = etcd.trim_start_matches("etcd://").split(',').next().expect("a member");
    let links = [
        Link::start(port(&store)).await,
        Link::start(port(&queue)).await,
        Link::start(port(member)).await,
    ];
    let through =
        |url: &str, link: &Link| url.replacen(&port(url).to_string(), &link.port.to_string(), 1);
    world.set("PUNCTUAL_STORE_URL", through(&store, &links[0]));
    world.set("PUNCTUAL_QUEUE_URL", through(&queue, &links[1]));
    world.set(
        "PUNCTUAL_CLUSTER_URL",
        format!("etcd://127.0.0.1:{}/{}", links[2].port, world.prefix),
    );
    let mut replica = world.replica(&[]).await;
    let before = replica.ask("/metrics").await;
    for link in &links {
        link.set(Mood::Silent);
    }
    // By then each loop waits for a response and has reported a failure.
    replica.wait_for_log("run failed, trying again").await;
    let begun = Instant::now();
    for _ in 0..SCRAPES {
        let reply = replica.ask("/metrics").await;
        assert_eq!(reply.status, 200);
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(lines(&reply.text), lines(&before.text), "the same series");
    }
    assert!(begun.elapsed() < BOUND, "{SCRAPES} scrapes took {:?}", begun.elapsed());
    for link in &links {
        link.set(Mood::Open);
    }
    replica.ready().await;
}
