//! Plans: what the accounts of an installation are allowed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Datelike;

use super::Timestamp;
use super::cron::Cadence;
use super::names::names;

/// The plan that is always there and has no limits.
pub const UNLIMITED: &str = "unlimited";
const DAY_MS: i64 = 86_400_000;
/// No two runs are closer.
const SHORTEST_GAP: Duration = Duration::from_secs(60);
/// How many days with runs are looked at to find two that are close to each other.
const DAYS: usize = 400;

names! {
    /// A kind of notification channel.
    ChannelType {
        /// Mail.
        Email = "email",
        /// A webhook of Slack.
        Slack = "slack",
        /// A webhook of Discord.
        Discord = "discord",
        /// A bot of Telegram.
        Telegram = "telegram",
        /// A signed request to any URL.
        Webhook = "webhook",
    }
}

names! {
    /// Of which outcomes a schedule tells.
    NotifyOn {
        /// Of none.
        None = "none",
        /// Of failures.
        Failure = "failure",
        /// Of successes.
        Success = "success",
        /// Of both.
        Both = "both",
    }
}

/// What an account is allowed. An absent limit is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// Schedules, enabled or not.
    pub schedules: Option<u64>,
    /// The time between two runs of a schedule that must not be less: see [`shortest_gap`].
    pub shortest_interval: Option<Duration>,
    /// Jobs in a calendar month, in UTC.
    pub jobs_per_month: Option<u64>,
    /// Jobs of a schedule that may wait for their first attempt; no more than the installation's
    /// [`Plans::unstarted_jobs`].
    pub unstarted_jobs: Option<u32>,
    /// Attempts under way at once.
    pub concurrent_attempts: Option<u64>,
    /// Notification channels.
    pub channels: Option<u64>,
    /// The types of channels.
    pub channel_types: Option<Vec<ChannelType>>,
    /// The outcomes that schedules may tell of.
    pub notify_on: Option<Vec<NotifyOn>>,
    /// The body of a schedule's request, in bytes.
    pub body_bytes: Option<u64>,
    /// How long finished jobs, skips and the audit log are kept, in days; absent: as long as of any
    /// account.
    pub history_days: Option<u64>,
    /// API requests of a key in a minute; 0 is no limit, absent is the installation's.
    pub requests_per_minute: Option<u32>,
    /// API requests of a key in an hour; 0 is no limit, absent is the installation's.
    pub requests_per_hour: Option<u32>,
}

impl Plan {
    /// A plan without limits.
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// What an account is allowed whose plan nobody has described: nothing.
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

    /// How long finished jobs, skips and the audit log are kept, where this plan says it.
    pub fn history(&self) -> Option<Duration> {
        self.history_days.map(|days| Duration::from_secs(days * 24 * 3_600))
    }

    /// Judges a cron expression by the shortest interval; `current` is the one that it replaces.
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

    /// Judges a request's body; `current` is the one that it replaces.
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

    /// The refusal of what this plan does not allow.
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

    /// Checks the outcomes that a preference tells of. `none` is always allowed.
    ///
    /// # Errors
    /// If the plan does not allow them.
    pub fn check_notify_on(&self, notify_on: NotifyOn) -> Result<(), LimitExceeded> {
        let allowed = self.notify_on.as_ref().is_none_or(|allowed| allowed.contains(&notify_on));
        let allowed = allowed || notify_on == NotifyOn::None;
        allowed.then_some(()).ok_or_else(|| self.forbids("notifyOn", notify_on.as_str()))
    }

    /// The refusal of a choice that is not in the plan's list: 1 is requested and 0 are allowed.
    fn forbids(&self, limit: &'static str, choice: &'static str) -> LimitExceeded {
        LimitExceeded { choice: Some(choice), ..self.exceeded(limit, 0, None, 1) }
    }
}

/// The plans that accounts can have, [`UNLIMITED`] among them.
#[derive(Clone, Debug)]
pub struct Plans {
    plans: BTreeMap<String, Arc<Plan>>,
    unstarted_jobs: u32,
}

/// How many jobs of a schedule may wait for their first attempt unless something else is said.
const UNSTARTED_JOBS: u32 = 100;

impl Plans {
    /// These, and the unlimited one.
    pub fn new(described: impl IntoIterator<Item = Plan>) -> Self {
        let all = described.into_iter().chain([Plan::unlimited(UNLIMITED)]);
        let plans = all.map(|plan| (plan.name.clone(), Arc::new(plan))).collect();
        Self { plans, unstarted_jobs: UNSTARTED_JOBS }
    }

    /// These plans, where so many jobs of a schedule may wait for their first attempt.
    #[must_use]
    pub fn with_unstarted_jobs(self, unstarted_jobs: u32) -> Self {
        Self { unstarted_jobs, ..self }
    }

    /// How many jobs of a schedule may wait for their first attempt, where the account has this plan;
    /// without a name, the unlimited one.
    pub fn unstarted_jobs(&self, plan: Option<&str>) -> u32 {
        let own = plan.and_then(|name| self.named(name)?.unstarted_jobs);
        own.unwrap_or(u32::MAX).min(self.unstarted_jobs)
    }

    /// The plan of this name, if there is one.
    pub fn named(&self, name: &str) -> Option<&Arc<Plan>> {
        self.plans.get(name)
    }

    /// The plan of an account. One that nobody has described allows nothing: an account never
    /// becomes unlimited because a name is missing.
    pub fn of(&self, name: &str) -> Arc<Plan> {
        self.named(name).cloned().unwrap_or_else(|| Arc::new(Plan::nothing(name)))
    }

    /// The longest history that any of them allows expressly.
    pub fn longest_history(&self) -> Option<Duration> {
        self.all().filter_map(Plan::history).max()
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values().map(|plan| &**plan)
    }
}

impl Default for Plans {
    fn default() -> Self {
        Self::new([])
    }
}

/// What a plan does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan {plan:?} does not allow it: {limit} is {max}, {requested} requested")]
pub struct LimitExceeded {
    /// The name of the limit in answers.
    pub limit: &'static str,
    /// Its value.
    pub max: u64,
    /// What the account has, or the schedule had, where that says something.
    pub current: Option<u64>,
    /// What the call would add, or set.
    pub requested: u64,
    /// The account's plan.
    pub plan: String,
    /// The choice that the plan does not allow, where the limit is a list of choices.
    pub choice: Option<&'static str>,
    /// Which of several it is about, from 0 on.
    pub item: Option<usize>,
}

/// The number of a month (UTC): `year * 100 + month`.
pub fn month_of(now: Timestamp) -> i64 {
    let now = now.to_utc();
    i64::from(now.year()) * 100 + i64::from(now.month())
}

/// The shortest time between two runs of a cron expression that follow each other, whenever that is.
/// It is judged on a clock that is never changed (UTC), so the day on which a timezone's clocks
/// change makes no difference. Absent if it does not run twice.
///
/// All days have the same runs, so those of one day are looked at, and how close two of the days can
/// be: of the next few hundred from `now`.
pub fn shortest_gap(expression: &str, now: Timestamp) -> Option<Duration> {
    let cadence = Cadence::parse(expression, "UTC").ok()?;
    let day = day_of(cadence.next_after(now)?);
    let first = first_since(&cadence, day)?;
    let (mut last, mut shortest) = (first, None::<Duration>);
    while let Some(next) = cadence.next_after(last).filter(|next| day_of(*next) == day) {
        let gap = next.since(last);
        if gap <= SHORTEST_GAP {
            return Some(gap);
        }
        shortest = Some(shortest.map_or(gap, |shortest| shortest.min(gap)));
        last = next;
    }
    let over_night = fewest_days(&cadence, day).map(|days| {
        let days = Duration::from_millis((days * DAY_MS).unsigned_abs());
        days.saturating_sub(last.since(first))
    });
    shortest.into_iter().chain(over_night).min()
}

/// How many days lie between two days with runs, at the fewest.
fn fewest_days(cadence: &Cadence, mut day: i64) -> Option<i64> {
    let mut fewest = None;
    for _ in 0..DAYS {
        let Some(next) = first_since(cadence, day + 1).map(day_of) else { break };
        fewest = Some(fewest.map_or(next - day, |fewest: i64| fewest.min(next - day)));
        if fewest == Some(1) {
            break;
        }
        day = next;
    }
    fewest
}

/// The first run on a day or later.
fn first_since(cadence: &Cadence, day: i64) -> Option<Timestamp> {
    cadence.next_after(Timestamp::from_millis(day * DAY_MS - 1))
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
    fn a_plan_that_nobody_has_described_allows_nothing() {
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
    fn what_is_too_much_is_told() {
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
