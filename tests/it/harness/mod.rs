//! Scripted servers and clients for the tests, and functions that wait for conditions.

pub mod app;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod database;
pub mod dns;
pub mod keys;
pub mod lags;
pub mod link;
pub mod lossy_proxy;
pub mod openid;
pub mod pages;
pub mod postgres;
pub mod process;
pub mod provider;
pub mod recorder;
pub mod redis_cluster;
pub mod servers;
pub mod smtp;
pub mod states;
pub mod target;
pub mod wait;

use std::time::{Duration, Instant};

/// Waits at most 10 s until `holds` returns `true`.
///
/// # Panics
/// If it does not return `true` in time.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
