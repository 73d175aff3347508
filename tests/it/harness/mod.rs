//! Servers that the tests script, and waiting for what they see.

pub mod app;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod database;
pub mod dns;
pub mod keys;
pub mod line;
pub mod link;
pub mod postgres;
pub mod process;
pub mod provider;
pub mod recorder;
pub mod redis_cluster;
pub mod servers;
pub mod smtp;
pub mod target;
pub mod wait;

use std::time::{Duration, Instant};

/// Waits until `holds`, for at most 10 s.
///
/// # Panics
/// If it does not hold by then.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
