//! A seeded simulation: users, time, crashes and faults on the real core.
//!
//! A seed determines a few hundred steps. Users create, change, delete, trigger, retry and cancel.
//! The clock advances by moments or days. The queue is wiped. Leaders are replaced and come back.
//! An operation of the store or the queue fails before or after it took effect. The process dies
//! between any two operations. Then all faults end, and `oracle` derives from the actions of the
//! users alone what the store and the target must contain. It reports violations by the names of
//! the invariants.
//!
//! The SQLite store, the queue, the leader, the job rescuer, the executor, the notifier, the HTTP
//! client and the commands are real. The simulation controls the clock, the random decisions, the
//! turns of the loops and the target. Attempts use real sockets concurrently. So two runs of one
//! seed have the same steps, but the order of the responses may differ. The invariants hold in any
//! order.
//!
//! Even seeds simulate a cluster of three replicas (`replicas`): etcd and the queue go away and
//! come back, for all replicas or for one of them, and replicas die and sleep meanwhile
//! (`outages`). In the end etcd, the queue and a replica may stay away.
//!
//! Further cases that a seed would rarely produce: `elections`, `hints`, `outages`, `outcomes`,
//! `quotas`, `shards`, `starts`, `upkeep`.
//!
//! `SIM_SEED=7 cargo test --test sim` runs one seed. A failure prints its seed and a trace.
//! `SIM_RUNS=100` runs that many new seeds.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the simulation stands outside of the service: its own tasks, real time, a report"
)]

mod alerts;
mod calendar;
mod elections;
mod firings;
mod gate;
mod hints;
mod history;
mod oracle;
mod outages;
mod outcomes;
mod process;
mod queue;
mod quotas;
mod races;
mod recorded;
mod replicas;
mod seeded_random;
mod shards;
mod starts;
mod steps;
mod store;
mod takeovers;
mod target;
mod upkeep;
mod users;
mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use world::World;

/// The number of steps of a run.
const STEPS: usize = 300;
/// The number of steps between two checks of the invariants that always hold.
const WATCHED: usize = 3;
/// The number of schedules at the start.
const SCHEDULES: usize = 5;
/// The seeds that always run. In the last one, a leader that has not taken over all shards is
/// replaced.
const FIXED: [u64; 7] = [1, 2, 3, 4, 5, 6, 680_935_813];
/// The number of new seeds, unless `SIM_RUNS` is set.
const RUNS: u64 = 6;
/// The number of seeds that run concurrently. The test runner reserves as many of its threads.
const AT_ONCE: usize = 2;

/// Runs a seed and checks the result.
fn simulate(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let is_cluster = seed.is_multiple_of(2);
        let mut world =
            if is_cluster { World::of_cluster(seed).await } else { World::new(seed).await };
        for _ in 0..SCHEDULES {
            world.create().await;
        }
        for step in 0..STEPS {
            world.step().await;
            if step % WATCHED == 0 {
                world.watch().await;
            }
        }
        world.heal().await;
        world.watch().await;
        let jobs = oracle::judge(&mut world).await;
        let hits = world.target.hits().len();
        let taken = world.outside.takeovers.count();
        println!("seed {seed}: {jobs} jobs, {hits} requests, {taken} shards taken over");
        assert!(
            world.broken.is_empty(),
            "SIM_SEED={seed} cargo test --test sim\n{}\n\n{}",
            world.trace.join("\n"),
            world.broken.join("\n"),
        );
    });
}

/// Runs seeds concurrently. They wait for the disk and sockets most of the time.
fn simulate_all(seeds: &[u64]) {
    for some in seeds.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for seed in some {
                scope.spawn(|| simulate(*seed));
            }
        });
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn fixed_seeds() {
    match number("SIM_SEED") {
        Some(seed) => simulate(seed),
        None => simulate_all(&FIXED),
    }
}

#[test]
fn new_seeds() {
    if number("SIM_SEED").is_some() {
        return;
    }
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let first = u64::try_from(nanos / 1_000 % 1_000_000_000).expect("small");
    let runs = number("SIM_RUNS").unwrap_or(RUNS);
    simulate_all(&(first..first + runs).collect::<Vec<_>>());
}
