//! Benchmarks the finished jobs per second when 20,000 schedules are due at once, or 50,000 on a
//! cluster of one replica, and their ratio to the requests per second of a single-threaded bare
//! reqwest loop against the same target. Then does the same while an account with as many schedules
//! is removed.
//!
//! The speed of a shared machine can halve from one minute to the next. So the bare loop runs right
//! before and right after each round, and the result is the median of the ratios of the rounds.
//!
//! `cargo bench --bench throughput`, or `tests/servers cargo bench --bench throughput` for the
//! cluster, takes nine minutes. On the cluster, five more rounds have PostgreSQL with its default
//! durability, in which every commit waits for the disk. The same PostgreSQL then runs as many jobs
//! of BullMQ and graphile-worker, which need Node.js and npm. The caps per account and per host are
//! raised because one account calls one host. All other settings are defaults.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use support::cluster;
use support::load;
use support::minute::wait_for_second;
use support::numbers::{median, summary};
use support::peers::Peers;
use support::profile::print_profile;
use support::rounds::{Rounds, lifted_caps};
use support::service::Service;
use support::target::Target;

const ROUNDS: usize = 5;
const ROUNDS_OF_OTHERS: usize = 3;
/// An account with as many schedules, which are not due.
const LEAVING: &str = "leaving";
/// Due only in some years.
const NOT_DUE: &str = "0 0 29 2 *";

fn main() {
    print_profile();
    let schedules = if cluster::is_there() { 50_000 } else { 20_000 };
    let target = Target::start();
    let bare = [64, 128, 256].map(|in_flight| (load::bare_loop_of(&target, in_flight), in_flight));
    println!("bare reqwest loop: {bare:.0?} requests a second with so many in flight");
    let fastest = bare.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let in_flight = fastest.expect("three of them").1;

    let service = Service::start(&lifted_caps("1024"));
    // All schedules must exist before the minute in which they are first due.
    wait_for_second(1..25);
    let (_, bulk) = service.create(schedules, "* * * * *", &target.url());
    println!("bulk create of 1000: {}", summary(bulk));

    let mut rounds = Rounds { target, service, due: schedules, in_flight };
    println!("median of the ratios: {:.3}", ratio(&rounds));
    if cluster::is_there() {
        cluster::make_durable();
        println!("median with PostgreSQL's default durability: {:.3}", ratio(&rounds));
    }
    // The removal of an account takes the same rows and locks as the history pruner, and more of
    // them.
    rounds.service.fill_account(LEAVING, schedules, NOT_DUE, &rounds.target.url());
    let beside = rounds.run(|| rounds.service.delete_account(LEAVING));
    println!("while an account is removed: {:.3}", beside.ratio);
    let Rounds { mut service, target, .. } = rounds;
    if cluster::is_there() {
        service.stop();
        compare(&target, schedules, in_flight);
    }
}

/// Returns the median ratio of some rounds.
fn ratio(rounds: &Rounds) -> f64 {
    median((0..ROUNDS).map(|_| rounds.run(|| ()).ratio).collect())
}

/// Measures other queues with the same number of jobs.
fn compare(target: &Target, count: usize, in_flight: usize) {
    let peers = Peers::install();
    let bullmq = || peers.bullmq(&target.url(), count);
    let graphile = || peers.graphile(&target.url(), count);
    let others: [(_, &dyn Fn() -> f64); 2] = [("BullMQ", &bullmq), ("graphile-worker", &graphile)];
    for (name, measure) in others.into_iter().cycle().take(2 * ROUNDS_OF_OTHERS) {
        let before = load::bare_loop_of(target, in_flight);
        let rate = measure();
        let bare = f64::midpoint(before, load::bare_loop_of(target, in_flight));
        println!("{name}: {rate:.0} jobs / {bare:.0} requests = {:.3}", rate / bare);
    }
}
