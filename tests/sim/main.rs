//! A seeded simulation: users, time, deaths and faults over the real core.
//!
//! A seed draws a few hundred steps: users create, change, delete, trigger, retry and cancel; the
//! clock moves by moments or days; the queue is wiped; leaders are replaced and come back; an
//! operation of the store or the queue fails before or after it took effect; the process dies
//! between any two of them. Then everything heals, and a judge (`oracle`) works out from what
//! users did alone what the store and the target must show, by the names of the invariants.
//!
//! Real are the SQLite store, the queue, leader, sweep, executor, notifier, HTTP client and the commands
//! of users. The simulation owns the clock, the dice, the loops' turns and the target. Attempts run
//! on real sockets beside each other, so two runs of one seed draw the same steps but may differ
//! in the order in which answers come; what must hold, holds in any order.
//!
//! Beside the seeds there are cases that none of them would draw often: `elections`, `hints`,
//! `outcomes`, `quotas`, `shards`.
//!
//! `SIM_SEED=7 cargo test --test sim` runs one seed; a failure prints its seed and what happened.
//! `SIM_RUNS=100` draws that many new seeds.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the simulation stands outside of the service: its own tasks, real time, a report"
)]

mod alerts;
mod calendar;
mod dice;
mod elections;
mod gate;
mod hints;
mod history;
mod oracle;
mod outcomes;
mod process;
mod queue;
mod quotas;
mod races;
mod shards;
mod starts;
mod steps;
mod store;
mod target;
mod upkeep;
mod users;
mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use world::World;

/// How many steps a run has.
const STEPS: usize = 300;
/// After how many steps what must hold at any time is checked.
const WATCHED: usize = 3;
/// How many schedules there are from the start.
const SCHEDULES: usize = 5;
/// Seeds that are always run.
const FIXED: [u64; 6] = [1, 2, 3, 4, 5, 6];
/// How many new seeds are run unless the environment says otherwise.
const RUNS: u64 = 6;
/// How many run at once.
const AT_ONCE: usize = 6;

/// Runs a seed to its verdict.
fn simulate(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut world = World::new(seed).await;
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
        println!("seed {seed}: {jobs} jobs, {hits} requests");
        assert!(
            world.broken.is_empty(),
            "SIM_SEED={seed} cargo test --test sim\n{}\n\n{}",
            world.trace.join("\n"),
            world.broken.join("\n"),
        );
    });
}

/// Runs seeds beside each other: most of their time they wait for disk and sockets.
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
