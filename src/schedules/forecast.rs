//! The forecast of an account's load: the number of runs in each minute of the next 24 hours.
//!
//! Most schedules share their expression and timezone with others. Therefore the store counts
//! schedules by both, and each pair is evaluated once. The numbers of pairs in a forecast, of
//! forecasts in computation and of forecasts in memory are bounded. Calls for the same account
//! within a minute share one forecast. It is computed to its end, even if no caller waits for it.

use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::CommandError;
use crate::domain::cron::Recurrence;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{Clock, TaskKind, Tasks};
use crate::store::{RecurrenceCount, SharedStore};

/// The number of minutes of a forecast.
const FORECAST_MINUTES: usize = 24 * 60;
/// The length of a minute, in milliseconds.
const MINUTE_MS: i64 = 60_000;
/// The maximum number of different recurrences of a forecast. Evaluating a minute of one takes at
/// most 300 ns, so this many that run every minute take less than a second.
const MAX_RECURRENCES: u32 = 2_000;
/// The maximum number of forecasts that are computed at once. Each occupies a core.
const AT_ONCE: usize = 2;
/// The maximum time that a caller waits for a forecast. A page without it is still quick, and asks
/// again.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// The maximum age of a forecast that replaces one which is still being computed, in minutes.
const OLDEST_MINUTES: i64 = 10;
/// The maximum number of forecasts in memory, with 12 KB each.
const CACHED: usize = 200;

/// The runs of an account's enabled schedules in each of the next 1,440 minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The start of the first minute, which is the present one.
    pub start: Timestamp,
    /// The number of runs in each minute.
    pub runs: Vec<u64>,
    /// The number of recurrences that are counted, the most frequent ones; `None` if the account
    /// has no others.
    pub limited_to: Option<u32>,
}

impl Forecast {
    /// Returns the start of a minute by its position in `runs`.
    pub fn minute(&self, position: usize) -> Timestamp {
        let minutes = i64::try_from(position).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.start.as_millis() + minutes.saturating_mul(MINUTE_MS))
    }

    /// Returns the first minute with the most runs, and its runs; `None` if there are no runs.
    pub fn peak(&self) -> Option<(Timestamp, u64)> {
        let most = *self.runs.iter().max().filter(|most| **most > 0)?;
        let position = self.runs.iter().position(|runs| *runs == most)?;
        Some((self.minute(position), most))
    }
}

/// The service that forecasts the load of accounts.
pub struct Forecasts(Arc<ForecastParts>);

struct ForecastParts {
    store: SharedStore,
    clock: Clock,
    tasks: Tasks,
    cache: Cache<(AccountId, Timestamp), Arc<Forecast>>,
    slots: Arc<Semaphore>,
}

impl Forecasts {
    /// Creates the service, without any forecast in memory.
    pub fn new(store: SharedStore, clock: Clock, tasks: Tasks) -> Self {
        let (cache, slots) = (Cache::new(CACHED), Arc::new(Semaphore::new(AT_ONCE)));
        Self(Arc::new(ForecastParts { store, clock, tasks, cache, slots }))
    }

    /// Returns the forecast of an account from the present minute on. If computing it takes more
    /// than 50 ms, because it has many recurrences or other accounts come first, one of the last
    /// minutes is returned; `None` if there is none. The computation then continues.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(&self, account: AccountId) -> Result<Option<Arc<Forecast>>, CommandError> {
        let parts = self.0.clone();
        let now = parts.clock.now().as_millis();
        let start = Timestamp::from_millis(now - now.rem_euclid(MINUTE_MS));
        if let Some(forecast) = parts.cache.get(&(account, start)) {
            return Ok(Some(forecast));
        }
        let computing = self.0.tasks.spawn(TaskKind::Forecast, async move {
            let compute = parts.compute(account, start);
            parts.cache.get_or_insert_async(&(account, start), compute).await
        });
        tokio::select! {
            biased;
            computed = computing => match computed {
                Ok(Some(computed)) => computed.map(Some),
                _ => Err(CommandError::Stopping),
            },
            () = self.0.clock.sleep(MAX_WAIT) => Ok(self.0.earlier(account, start)),
        }
    }
}

impl ForecastParts {
    /// Returns the newest forecast of an account from the last minutes.
    fn earlier(&self, account: AccountId, start: Timestamp) -> Option<Arc<Forecast>> {
        let minute = |ago| Timestamp::from_millis(start.as_millis() - ago * MINUTE_MS);
        (1..=OLDEST_MINUTES).find_map(|ago| self.cache.get(&(account, minute(ago))))
    }

    async fn compute(
        &self,
        account: AccountId,
        start: Timestamp,
    ) -> Result<Arc<Forecast>, CommandError> {
        let mut counts = self.store.recurrences(account, MAX_RECURRENCES + 1).await?;
        let is_limited = counts.len() > MAX_RECURRENCES as usize;
        counts.truncate(MAX_RECURRENCES as usize);
        let slot = self.slots.clone().acquire_owned().await;
        let runs = spawn_blocking(move || {
            // The slot is free again at the end, even if a stop has dropped the task.
            let _slot = slot;
            runs_per_minute(&counts, start)
        });
        let runs = runs.await.map_err(|_| CommandError::Panicked)?;
        let limited_to = is_limited.then_some(MAX_RECURRENCES);
        Ok(Arc::new(Forecast { start, runs, limited_to }))
    }
}

fn runs_per_minute(counts: &[RecurrenceCount], start: Timestamp) -> Vec<u64> {
    let mut runs = vec![0; FORECAST_MINUTES];
    let before = start.minus(Duration::from_millis(1));
    for RecurrenceCount { cron_expression, timezone, schedules } in counts {
        // An expression that this release cannot read does not fire, either.
        let Ok(recurrence) = Recurrence::parse(cron_expression, timezone) else { continue };
        for tick in successors(recurrence.next_after(before), |tick| recurrence.next_after(*tick)) {
            let minute = tick.since(start).as_millis() / u128::from(MINUTE_MS.unsigned_abs());
            let position = usize::try_from(minute).unwrap_or(FORECAST_MINUTES);
            let Some(minute) = runs.get_mut(position) else { break };
            *minute += schedules;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(counts: &[(&str, &str, u64)], start: &str) -> Forecast {
        let start = start.parse().expect("an instant");
        let count = |(cron_expression, timezone, schedules): &(&str, &str, u64)| RecurrenceCount {
            cron_expression: (*cron_expression).to_owned(),
            timezone: (*timezone).to_owned(),
            schedules: *schedules,
        };
        let counts: Vec<_> = counts.iter().map(count).collect();
        Forecast { start, runs: runs_per_minute(&counts, start), limited_to: None }
    }

    #[test]
    fn every_minute_has_its_runs() {
        let counts = [
            ("* * * * *", "UTC", 3),
            ("0 9 * * *", "Europe/Berlin", 5),
            ("30 8 * * *", "UTC", 7),
            ("no expression", "UTC", 100),
            ("0 0 1 1 *", "UTC", 100),
        ];
        let forecast = forecast(&counts, "2026-11-26T08:00:00Z");
        assert_eq!(forecast.runs.len(), FORECAST_MINUTES);
        let total: u64 = forecast.runs.iter().sum();
        assert_eq!(total, 3 * 1_440 + 5 + 7);
        // The present minute counts, although its ticks may have fired.
        assert_eq!((forecast.runs[0], forecast.runs[1], forecast.runs[30]), (8, 3, 10));
        assert_eq!(forecast.peak(), Some((forecast.minute(30), 10)));
        assert_eq!(forecast.minute(30), "2026-11-26T08:30:00Z".parse().expect("an instant"));
    }

    #[test]
    fn without_schedules_there_is_no_peak() {
        let none = forecast(&[], "2026-11-26T08:00:00Z");
        assert_eq!((none.peak(), none.runs.iter().sum::<u64>()), (None, 0));
    }

    /// The clock of Berlin shows 02:00 to 03:00 twice.
    #[test]
    fn a_repeated_hour_counts_as_the_scheduler_counts_it() {
        let counts = [("30 * * * *", "Europe/Berlin", 1), ("30 2 * * *", "Europe/Berlin", 10)];
        let forecast = forecast(&counts, "2026-10-24T22:00:00Z");
        assert_eq!(forecast.runs.iter().sum::<u64>(), 24 + 10);
        assert_eq!((forecast.runs[150], forecast.runs[210]), (11, 1));
    }
}
