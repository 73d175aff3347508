//! Rounds of jobs: how fast all schedules that are due at one minute are finished, as a ratio to a
//! bare reqwest loop against the same target, right before and right after.

use std::thread;
use std::time::{Duration, Instant};

use punctual::runtime::Clock;

use super::load;
use super::minute::{since_minute, wait_for_second};
use super::numbers::{quantile, summary};
use super::service::Service;
use super::target::Target;

/// The longest time that the jobs of a minute may take.
const PATIENCE: Duration = Duration::from_secs(55);
const MINUTE: Duration = Duration::from_secs(60);

/// What is measured, and how.
pub struct Rounds {
    pub target: Target,
    pub service: Service,
    /// How many schedules of the service are due each minute.
    pub due: usize,
    /// Requests in flight in the bare loop.
    pub in_flight: usize,
}

/// What a round has measured.
pub struct Round {
    /// Jobs a second, as a ratio to the bare loop's requests a second.
    pub ratio: f64,
    /// The start lag that 99 of 100 jobs do not exceed.
    pub lag: Duration,
}

impl Rounds {
    /// Measures the next minute. `begin` starts what shall go on beside the jobs.
    pub fn run(&self, begin: impl FnOnce()) -> Round {
        wait_for_second(48..52);
        let before = load::bare_loop_of(&self.target, self.in_flight);
        begin();
        let (rate, lag) = self.measure();
        let after = load::bare_loop_of(&self.target, self.in_flight);
        let ratio = rate / f64::midpoint(before, after);
        println!("         / {before:.0} and {after:.0} bare requests a second = {ratio:.3}");
        Round { ratio, lag }
    }

    fn finished(&self) -> f64 {
        self.service.metric("punctual_jobs_finished_total", "SUCCESS")
    }

    fn measure(&self) -> (f64, Duration) {
        let (clock, finished) = (Clock::system(), self.finished());
        self.target.take_lags();
        thread::sleep(MINUTE - since_minute(&clock));
        let began = Instant::now();
        self.target.wait_for(self.due, PATIENCE);
        let sent = began.elapsed();
        while self.finished() < finished + self.due as f64 {
            assert!(began.elapsed() < PATIENCE, "not all jobs finished in {PATIENCE:?}");
            thread::sleep(Duration::from_millis(2));
        }
        let rate = self.due as f64 / began.elapsed().as_secs_f64();
        let mut lags = self.target.take_lags();
        println!("{rate:.0} jobs a second; sent after {sent:.2?}; lag {}", summary(lags.clone()));
        (rate, quantile(&mut lags, 0.99))
    }
}

/// Settings that lift the caps for one account that calls one host, to so many attempts at once.
pub fn lifted_caps(in_flight: &str) -> [(&'static str, &str); 3] {
    [
        ("PUNCTUAL_EXECUTOR_SLOTS", in_flight),
        ("PUNCTUAL_EXECUTOR_PER_ACCOUNT", in_flight),
        ("PUNCTUAL_EXECUTOR_PER_HOST", in_flight),
    ]
}
