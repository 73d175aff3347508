//! Plans: the limits of an installation's accounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Datelike;

use super::Timestamp;
use super::cron::Recurrence;
use super::names::names;

/// The plan that always exists and has no limits.
pub const UNLIMITED: &str = "unlimited";
const DAY_MS: i64 = 86_400_000;
/// The shortest possible gap between two runs.
const MIN_GAP: Duration = Duration::from_secs(60);
/// The number of days with runs that are examined to find two that are close to each other.
const DAYS: usize = 400;

names! {
    /// A type of notification channel.
    ChannelType {
        /// Email.
        Email = "email",
        /// A Slack webhook.
        Slack = "slack",
        /// A Discord webhook.
        Discord = "discord",
        /// A Telegram bot.
        Telegram = "telegram",
        /// A signed request to any URL.
        Webhook = "webhook",
    }
}

names! {
    /// The outcomes about which a schedule sends alerts.
    NotifyOn {
        /// None.
        None = "none",
        /// Failures.
        Failure = "failure",
        /// Successes.
        Success = "success",
        /// Both.
        Both = "both",
    }
}

/// The limits of an account. An absent limit means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The plan's name.
    pub name: String,
    /// The maximum number of schedules, enabled or not.
    pub schedules: Option<u64>,
    /// The minimum time between two runs of a schedule: see [`shortest_gap`].
    pub shortest_interval: Option<Duration>,
    /// The maximum number of jobs in a calendar month, in UTC.
    pub jobs_per_month: Option<u64>,
    /// The maximum number of a schedule's jobs that wait for their first attempt; capped at the
    /// installation's [`Plans::unstarted_jobs`].
    pub unstarted_jobs: Option<u32>,
    /// The maximum number of concurrent attempts.
    pub concurrent_attempts: Option<u64>,
    /// The maximum number of notification channels.
    pub channels: Option<u64>,
    /// The allowed types of channels.
    pub channel_types: Option<Vec<ChannelType>>,
    /// The outcomes about which schedules may send alerts.
    pub notify_on: Option<Vec<NotifyOn>>,
    /// The maximum size of a schedule's request body, in bytes.
    pub body_bytes: Option<u64>,
    /// The retention of finished jobs, skips and the audit log, in days; absent: the installation's
    /// default.
    pub history_days: Option<u64>,
    /// The maximum number of API requests of a key in a minute; 0 is no limit, absent is the
    /// installation's.
    pub requests_per_minute: Option<u32>,
    /// The maximum number of API requests of a key in an hour; 0 is no limit, absent is the
    /// installation's.
    pub requests_per_hour: Option<u32>,
}

impl Plan {
    /// Returns a plan without limits.
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the plan of an account whose plan is not configured: it allows nothing.
    fn nothing(name: &str) -> Self {
        Self {
            schedules: Some(0),
            jobs_per_month: Some(0),
            channels: Some(0),
            channel_types: Some(Vec::new()),
            notify_on: Some(vec![NotifyOn::None]),
            body_bytes: Some(0),
            ..Self::unlimited(name)
        }
    }

    /// Returns the retention of finished jobs, skips and the audit log, if this plan sets it.
    pub fn history(&self) -> Option<Duration> {
        self.history_days.map(|days| Duration::from_secs(days * 24 * 3_600))
    }

    /// Checks a cron expression against the shortest interval; `current` is the expression that it
    /// replaces.
    ///
    /// # Errors
    /// If its runs follow each other too fast.
    pub fn check_interval(
        &self,
        expression: &str,
        current: Option<&str>,
        now: Timestamp,
    ) -> Result<(), LimitExceeded> {
        let Some(shortest) = self.shortest_interval else { return Ok(()) };
        let gap = |expression: &str| shortest_gap(expression, now).map(|gap| gap.as_secs());
        match gap(expression) {
            Some(requested) if requested < shortest.as_secs() => {
                let current = current.and_then(gap);
                Err(self.exceeded(
                    "shortestIntervalSeconds",
                    shortest.as_secs(),
                    current,
                    requested,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks the size of a request's body; `current` is the body that it replaces.
    ///
    /// # Errors
    /// If it is too large.
    pub fn check_body(
        &self,
        body: Option<&str>,
        current: Option<&str>,
    ) -> Result<(), LimitExceeded> {
        let (Some(most), Some(body)) = (self.body_bytes, body) else { return Ok(()) };
        let bytes = body.len() as u64;
        if bytes <= most {
            return Ok(());
        }
        Err(self.exceeded("bodyBytes", most, current.map(|body| body.len() as u64), bytes))
    }

    /// Returns the error for a value that exceeds a limit of this plan.
    pub fn exceeded(
        &self,
        limit: &'static str,
        max: u64,
        current: Option<u64>,
        requested: u64,
    ) -> LimitExceeded {
        let plan = self.name.clone();
        LimitExceeded { limit, max, current, requested, plan, choice: None, item: None }
    }

    /// Checks the type of a new or newly attached channel.
    ///
    /// # Errors
    /// If the plan does not allow it.
    pub fn check_channel_type(&self, kind: ChannelType) -> Result<(), LimitExceeded> {
        let allowed = self.channel_types.as_ref().is_none_or(|allowed| allowed.contains(&kind));
        allowed.then_some(()).ok_or_else(|| self.forbids("channelTypes", kind.as_str()))
    }

    /// Checks the outcomes of a notification preference. `none` is always allowed.
    ///
    /// # Errors
    /// If the plan does not allow them.
    pub fn check_notify_on(&self, notify_on: NotifyOn) -> Result<(), LimitExceeded> {
        let allowed = self.notify_on.as_ref().is_none_or(|allowed| allowed.contains(&notify_on));
        let allowed = allowed || notify_on == NotifyOn::None;
        allowed.then_some(()).ok_or_else(|| self.forbids("notifyOn", notify_on.as_str()))
    }

    /// Returns the error for a choice that is not in the plan's list: 1 is requested and 0 are
    /// allowed.
    fn forbids(&self, limit: &'static str, choice: &'static str) -> LimitExceeded {
        LimitExceeded { choice: Some(choice), ..self.exceeded(limit, 0, None, 1) }
    }
}

/// The plans that accounts can have, including [`UNLIMITED`].
#[derive(Clone, Debug)]
pub struct Plans {
    plans: BTreeMap<String, Arc<Plan>>,
    unstarted_jobs: u32,
}

/// The default for the number of a schedule's jobs that may wait for their first attempt.
const UNSTARTED_JOBS: u32 = 100;

impl Plans {
    /// Returns these plans and the unlimited one.
    pub fn new(described: impl IntoIterator<Item = Plan>) -> Self {
        let all = described.into_iter().chain([Plan::unlimited(UNLIMITED)]);
        let plans = all.map(|plan| (plan.name.clone(), Arc::new(plan))).collect();
        Self { plans, unstarted_jobs: UNSTARTED_JOBS }
    }

    /// Sets the number of a schedule's jobs that may wait for their first attempt.
    #[must_use]
    pub fn with_unstarted_jobs(self, unstarted_jobs: u32) -> Self {
        Self { unstarted_jobs, ..self }
    }

    /// Returns the number of a schedule's jobs that may wait for their first attempt under this
    /// plan; without a name, under the unlimited one.
    pub fn unstarted_jobs(&self, plan: Option<&str>) -> u32 {
        let own = plan.and_then(|name| self.named(name)?.unstarted_jobs);
        own.unwrap_or(u32::MAX).min(self.unstarted_jobs)
    }

    /// Returns the plan of this name, if it exists.
    pub fn named(&self, name: &str) -> Option<&Arc<Plan>> {
        self.plans.get(name)
    }

    /// Returns the plan of an account. A plan that is not configured allows nothing: an account
    /// never becomes unlimited because a name is missing.
    pub fn of(&self, name: &str) -> Arc<Plan> {
        self.named(name).cloned().unwrap_or_else(|| Arc::new(Plan::nothing(name)))
    }

    /// Returns the longest retention that any plan sets.
    pub fn longest_history(&self) -> Option<Duration> {
        self.all().filter_map(Plan::history).max()
    }

    /// Returns all plans, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values().map(|plan| &**plan)
    }
}

impl Default for Plans {
    fn default() -> Self {
        Self::new([])
    }
}

/// A limit of a plan that a call exceeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan {plan:?} does not allow it: {limit} is {max}, {requested} requested")]
pub struct LimitExceeded {
    /// The name of the limit in answers.
    pub limit: &'static str,
    /// The limit's value.
    pub max: u64,
    /// The current value of the account or the schedule, if there is a meaningful one.
    pub current: Option<u64>,
    /// The value that the call would add or set.
    pub requested: u64,
    /// The account's plan.
    pub plan: String,
    /// The choice that the plan does not allow, if the limit is a list of choices.
    pub choice: Option<&'static str>,
    /// The index of the item concerned, from 0, if the call has several.
    pub item: Option<usize>,
}

/// Returns the number of a month (UTC): `year * 100 + month`.
pub fn month_of(now: Timestamp) -> i64 {
    let now = now.to_utc();
    i64::from(now.year()) * 100 + i64::from(now.month())
}

/// Returns the shortest time between two consecutive runs of a cron expression; absent if it does
/// not run twice.
///
/// The expression is evaluated in UTC, so the day on which a timezone's clocks change makes no
/// difference. All days have the same runs. So it is enough to examine the runs of one day, and the
/// distances of days with runs: the next few hundred from `now`.
pub fn shortest_gap(expression: &str, now: Timestamp) -> Option<Duration> {
    let recurrence = Recurrence::parse(expression, "UTC").ok()?;
    let day = day_of(recurrence.next_after(now)?);
    let first = first_since(&recurrence, day)?;
    let (mut last, mut shortest) = (first, None::<Duration>);
    while let Some(next) = recurrence.next_after(last).filter(|next| day_of(*next) == day) {
        let gap = next.since(last);
        if gap <= MIN_GAP {
            return Some(gap);
        }
        shortest = Some(shortest.map_or(gap, |shortest| shortest.min(gap)));
        last = next;
    }
    // The gap between two days: whole days minus the time from the first to the last run of a day.
    let over_night = fewest_days(&recurrence, day).map(|days| {
        let days = Duration::from_millis((days * DAY_MS).unsigned_abs());
        days.saturating_sub(last.since(first))
    });
    shortest.into_iter().chain(over_night).min()
}

/// Returns the smallest number of days between two days with runs.
fn fewest_days(recurrence: &Recurrence, mut day: i64) -> Option<i64> {
    let mut fewest = None;
    for _ in 0..DAYS {
        let Some(next) = first_since(recurrence, day + 1).map(day_of) else { break };
        fewest = Some(fewest.map_or(next - day, |fewest: i64| fewest.min(next - day)));
        if fewest == Some(1) {
            break;
        }
        day = next;
    }
    fewest
}

/// Returns the first run on `day` or later.
fn first_since(recurrence: &Recurrence, day: i64) -> Option<Timestamp> {
    recurrence.next_after(Timestamp::from_millis(day * DAY_MS - 1))
}

fn day_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_gap_is_found_wherever_it_is() {
        let now: Timestamp = "2030-03-30T12:00:30Z".parse().expect("an instant");
        for (expression, seconds) in [
            ("* * * * *", 60),
            ("*/5 * * * *", 300),
            ("0 2 * * *", 86_400),
            ("0,59 0,23 * * *", 60),
            ("0 9,10 1 1 *", 3_600),
            ("0,1 0 29 2 *", 60),
            ("*/7 * * * *", 240),
            ("0,6,12,18,24,30,36,42,48,54,59 0,2,4,6,8,10,12,14,16,18,20,22,23 * * *", 60),
            ("0,30 0,23 * * *", 1_800),
            ("30 0,23 1,2 * *", 3_600),
            ("59 0,23 1,3 * *", 82_800),
            ("0 12 * * 1,4", 259_200),
            ("0 0 28 * *", 2_419_200),
        ] {
            let gap = shortest_gap(expression, now).expect("it runs");
            assert_eq!(gap.as_secs(), seconds, "{expression}");
        }
    }

    #[test]
    fn months_have_numbers() {
        let at = |text: &str| month_of(text.parse::<Timestamp>().expect("an instant"));
        assert_eq!(at("2029-12-31T23:59:59.999Z"), 202_912);
        assert_eq!(at("2030-01-01T00:00:00Z"), 203_001);
    }

    #[test]
    fn an_undescribed_plan_allows_nothing() {
        let plans = Plans::new([Plan { schedules: Some(5), ..Plan::unlimited("free") }]);
        assert_eq!(plans.of("free").schedules, Some(5));
        assert_eq!(*plans.of(UNLIMITED), Plan::unlimited(UNLIMITED));
        let gone = plans.of("gone");
        assert_eq!(
            (gone.name.as_str(), gone.schedules, gone.jobs_per_month),
            ("gone", Some(0), Some(0))
        );
        let now = Timestamp::from_millis(0);
        assert!(gone.check_body(Some("x"), None).is_err());
        assert!(gone.check_interval("* * * * *", None, now).is_ok());
    }

    #[test]
    fn limits_above_the_bound_are_refused() {
        let plan = Plan {
            shortest_interval: Some(Duration::from_secs(300)),
            body_bytes: Some(4),
            ..Plan::unlimited("free")
        };
        let now = Timestamp::from_millis(0);
        assert_eq!(plan.check_interval("*/5 * * * *", None, now), Ok(()));
        let refused = plan.check_interval("* * * * *", Some("*/10 * * * *"), now);
        assert_eq!(refused, Err(plan.exceeded("shortestIntervalSeconds", 300, Some(600), 60)));
        assert_eq!(plan.check_body(Some("1234"), None), Ok(()));
        let refused = plan.check_body(Some("12345"), Some("1"));
        assert_eq!(refused, Err(plan.exceeded("bodyBytes", 4, Some(1), 5)));
    }
}
