//! Benchmarks `GET` of one schedule, with authentication and rate limits: the requests per second,
//! and their ratio to a bare axum handler that returns the same bytes under the same load. Also
//! measures the duration of a bulk create of 1,000 schedules.
//!
//! `cargo bench --bench api` takes a minute.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::net::SocketAddr;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use support::http;
use support::load::requests_per_second;
use support::numbers::{best, summary};
use support::profile::print_profile;
use support::service::{Service, free_address};

const CONNECTIONS: u16 = 32;
const SPAN: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;
const BULK_CALLS: usize = 20;

/// The argument that turns this program into the bare server. The address and the response bytes
/// follow it.
const BARE: &str = "bare-server";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, address, bytes] = arguments.as_slice()
        && word == BARE
    {
        return serve_bare(address, bytes.clone());
    }
    print_profile();
    let service = Service::start(&[]);
    let (ids, bulk) = service.create(BULK_CALLS * 1_000, "0 0 29 2 *", "http://127.0.0.1:9/");
    println!("bulk create of 1000: {}", summary(bulk));

    let path = format!("/v1/schedules/{}", ids[0]);
    let request = http::request("GET", &path, &service.key, "", "keep-alive");
    let bytes = service.call("GET", &path, "", 200);
    let bare = Bare::start(&bytes);
    let (mut ours, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(requests_per_second(service.public, &request, CONNECTIONS, SPAN));
        bares.push(requests_per_second(bare.address, &request, CONNECTIONS, SPAN));
    }
    println!("GET of one schedule: {ours:.0?} a second; bare handler: {bares:.0?}");
    let (ours, bare) = (best(&ours), best(&bares));
    println!("best: {ours:.0} / {bare:.0} = {:.3}", ours / bare);
}

/// The bare server as a separate process.
struct Bare {
    address: SocketAddr,
    process: Child,
}

impl Bare {
    fn start(bytes: &str) -> Self {
        let address = free_address();
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        let process = command.args([BARE, &address.to_string(), bytes]).spawn();
        while http::call(address, "GET", "/v1/schedules/x", "", "").is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        Self { address, process: process.expect("a server") }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve_bare(address: &str, bytes: String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let handler = || async move { ([(CONTENT_TYPE, "application/json")], bytes) };
        let router = Router::new().route("/v1/schedules/{id}", get(handler));
        let listener = tokio::net::TcpListener::bind(address).await.expect("a free port");
        axum::serve(listener, router).await.expect("served");
    });
}
