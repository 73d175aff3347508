//! Measures rounds of jobs: the rate at which all schedules of a minute finish, as a ratio to a
//! bare reqwest loop against the same target right before and right after.

use std::thread;
use std::time::{Duration, Instant};

use punctual::runtime::Clock;

use super::load;
use super::minute::{since_minute, wait_for_second};
use super::numbers::{quantile, summary};
use super::service::Service;
use super::target::Target;

/// The timeout for the jobs of a minute.
const TIMEOUT: Duration = Duration::from_secs(55);
const MINUTE: Duration = Duration::from_secs(60);

/// The subject and the parameters of the measurement.
pub struct Rounds {
    pub target: Target,
    pub service: Service,
    /// The number of schedules that are due each minute.
    pub due: usize,
    /// The number of requests in flight in the bare loop.
    pub in_flight: usize,
}

/// The results of a round.
pub struct RoundResult {
    /// Jobs per second.
    pub rate: f64,
    /// Jobs per second, as a ratio to the requests per second of the bare loop.
    pub ratio: f64,
    /// The 99th percentile of the start lag.
    pub lag: Duration,
}

impl Rounds {
    /// Measures the next minute. `begin` starts the work that runs concurrently with the jobs.
    pub fn run(&self, begin: impl FnOnce()) -> RoundResult {
        wait_for_second(48..52);
        let before = load::bare_loop_of(&self.target, self.in_flight);
        begin();
        let (rate, lag) = self.measure();
        let after = load::bare_loop_of(&self.target, self.in_flight);
        let ratio = rate / f64::midpoint(before, after);
        println!("         / {before:.0} and {after:.0} bare requests a second = {ratio:.3}");
        RoundResult { rate, ratio, lag }
    }

    fn finished(&self) -> f64 {
        self.service.metric("punctual_jobs_finished_total", "SUCCESS")
    }

    fn measure(&self) -> (f64, Duration) {
        let (clock, finished) = (Clock::system(), self.finished());
        self.target.take_lags();
        thread::sleep(MINUTE - since_minute(&clock));
        let began = Instant::now();
        self.target.wait_for(self.due, TIMEOUT);
        let sent = began.elapsed();
        while self.finished() < finished + self.due as f64 {
            assert!(began.elapsed() < TIMEOUT, "not all jobs finished in {TIMEOUT:?}");
            thread::sleep(Duration::from_millis(2));
        }
        let rate = self.due as f64 / began.elapsed().as_secs_f64();
        let mut lags = self.target.take_lags();
        println!("{rate:.0} jobs a second; sent after {sent:.2?}; lag {}", summary(lags.clone()));
        (rate, quantile(&mut lags, 0.99))
    }
}

/// Returns settings that raise the caps to `in_flight` concurrent attempts, because one account
/// calls one host.
pub fn lifted_caps(in_flight: &str) -> [(&'static str, &str); 3] {
    [
        ("PUNCTUAL_EXECUTOR_SLOTS", in_flight),
        ("PUNCTUAL_EXECUTOR_PER_ACCOUNT", in_flight),
        ("PUNCTUAL_EXECUTOR_PER_HOST", in_flight),
    ]
}
