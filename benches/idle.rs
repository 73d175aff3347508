//! What 100,000 schedules cost that have nothing to do: processor, memory, and the time from start
//! to ready.
//!
//! `cargo bench --bench idle` takes two minutes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::thread;
use std::time::Duration;

use support::service::Service;

const SCHEDULES: usize = 100_000;
const SPAN: Duration = Duration::from_secs(30);
const STARTS: usize = 3;

fn main() {
    let mut service = Service::start(&[]);
    restart(&mut service, "empty store");
    // Not due before the next leap day.
    service.create(SCHEDULES, "0 0 29 2 *", "http://127.0.0.1:9/");
    restart(&mut service, "100,000 schedules");

    // Let the work of the start end first.
    thread::sleep(Duration::from_secs(10));
    let before = service.processor_time();
    thread::sleep(SPAN);
    let used = service.processor_time() - before;
    let share = used.as_secs_f64() / SPAN.as_secs_f64() * 100.0;
    println!("100,000 idle schedules: {share:.2} % of one core, {} MiB", service.resident_mib());
}

fn restart(service: &mut Service, what: &str) {
    for _ in 0..STARTS {
        service.stop();
        println!("{what}: ready after {:.0?}", service.launch());
    }
}
