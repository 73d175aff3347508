//! Benchmarks the throughput with 10,000, 100,000 and 1,000,000 schedules, of which 10,000 are due
//! each minute: the median ratio to a bare reqwest loop, and the effect of the larger numbers on
//! it.
//!
//! `tests/servers cargo bench --bench scale` takes twenty minutes. Without servers, everything is
//! embedded.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use support::minute::wait_for_second;
use support::numbers::median;
use support::profile::print_profile;
use support::rounds::{Rounds, lifted_caps};
use support::service::Service;
use support::target::Target;

const ROUNDS: usize = 5;
const DUE: usize = 10_000;
const PRESENT: [usize; 3] = [10_000, 100_000, 1_000_000];
/// Due only in some years.
const NOT_DUE: &str = "0 0 29 2 *";

fn main() {
    print_profile();
    let (target, service) = (Target::start(), Service::start(&lifted_caps("1024")));
    // All schedules must exist before the minute in which they are first due.
    wait_for_second(1..25);
    service.create(DUE, "* * * * *", &target.url());
    let rounds = Rounds { target, service, due: DUE, in_flight: 128 };
    let (mut present, mut first) = (DUE, None);
    for wanted in PRESENT {
        rounds.service.create(wanted - present, NOT_DUE, &rounds.target.url());
        present = wanted;
        let ratio = median((0..ROUNDS).map(|_| rounds.run(|| ()).ratio).collect());
        let first = *first.get_or_insert(ratio);
        println!("{present} schedules: median {ratio:.3}, {:.2} of the first", ratio / first);
    }
}
