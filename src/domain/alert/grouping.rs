//! Which alerts are told together: incidents and digests.
//!
//! # The danger
//! A host that is down makes every schedule against it fail. 200 schedules would send 200 alerts to one
//! channel, and 200 more when the host is back. The one alert that matters would be lost among them.
//!
//! # The rule
//! One channel is told of one host by one alert, if enough schedules fail against it:
//! - `Gathering`: a failure is held until no other one has come for [`GroupingRules::gather`], at most
//!   [`GroupingRules::gather_most`].
//! - If `incident_schedules` schedules or more are failing then, the incident is `Open`: one alert with
//!   their number, and everything that was held, or fails later, is merged into it. Otherwise what was
//!   held is sent one by one, and the host is being `Watching`: its failing schedules still count when
//!   the next one fails.
//! - An open incident is closed, with one alert, when all its schedules have recovered; or some have, and
//!   nothing has failed for [`GroupingRules::calm`]; or so many have that too few fail to make one, and
//!   none has recovered for that long.
//! - An incident ends without an alert after [`GroupingRules::stale`] without a failure or
//!   [`GroupingRules::longest`] in all: the next failure is told anew.
//!
//! A channel gets `per_minute` alerts in a minute; all others of that minute are merged into one digest,
//! which is sent at the minute's end.
//!
//! Everything here is pure: the store reads the state of channels and incidents, locks it, lets this
//! module decide and writes what it says.

use std::time::Duration;

use super::AlertKind;
use crate::domain::Timestamp;

/// The minute of [`GroupingRules::per_minute`].
const WINDOW: Duration = Duration::from_secs(60);

/// What the operator decides about grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupingRules {
    /// Alerts that a channel gets in a minute before the rest becomes a digest; 0 is no limit.
    pub per_minute: u32,
    /// Schedules that must fail against a host to make an incident; 0 makes none.
    pub incident_schedules: u32,
    /// How long a failure waits for others against the same host.
    pub gather: Duration,
    /// How long it waits at most while others come.
    pub gather_most: Duration,
    /// How long nothing may fail before an incident is closed of which some schedules have not run again.
    pub calm: Duration,
    /// How long without a failure until an incident is forgotten.
    pub stale: Duration,
    /// How long an incident lasts before the next failure is told anew.
    pub longest: Duration,
}

impl Default for GroupingRules {
    fn default() -> Self {
        Self {
            per_minute: 30,
            incident_schedules: 5,
            gather: Duration::from_millis(500),
            gather_most: Duration::from_secs(5),
            calm: Duration::from_secs(120),
            stale: Duration::from_secs(3_600),
            longest: Duration::from_secs(24 * 3_600),
        }
    }
}

/// What a channel has been sent in the present minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFlow {
    /// When the minute began.
    pub window_began: Timestamp,
    /// Alerts sent in it.
    pub sent: u32,
    /// Whether its digest has begun.
    pub has_digest: bool,
}

/// Where an alert goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the channel, now.
    Send,
    /// Into the digest of this minute, which begins with it.
    BeginDigest {
        /// When the digest is sent.
        due: Timestamp,
    },
    /// Into the digest of this minute.
    JoinDigest,
}

impl ChannelFlow {
    /// Takes one more alert at `now`.
    pub fn take(&mut self, now: Timestamp, rules: &GroupingRules) -> Flow {
        if rules.per_minute == 0 {
            return Flow::Send;
        }
        // A minute that lies ahead was begun by a replica whose clock is ahead; it is as good.
        if now >= self.window_began.plus(WINDOW) {
            *self = Self { window_began: now, sent: 0, has_digest: false };
        }
        if self.sent < rules.per_minute {
            self.sent += 1;
            return Flow::Send;
        }
        if self.has_digest {
            return Flow::JoinDigest;
        }
        self.has_digest = true;
        Flow::BeginDigest { due: self.window_began.plus(WINDOW) }
    }
}

/// How far an incident is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Alerts are held until it is clear how many there are.
    Gathering,
    /// Too few schedules fail; each is told by itself.
    Watching,
    /// It was told; everything else is merged into that alert.
    Open,
}

/// A host that schedules fail against, as one channel is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncidentState {
    /// How far it is.
    pub stage: Stage,
    /// While it gathers: when it stops, whatever comes.
    pub gather_until: Timestamp,
    /// When it has to be looked at again.
    pub due_at: Timestamp,
    /// When the first schedule failed.
    pub since: Timestamp,
    /// When it was told.
    pub opened_at: Option<Timestamp>,
    /// When the last job failed.
    pub last_failure_at: Timestamp,
    /// When the last schedule recovered.
    pub last_recovery_at: Option<Timestamp>,
    /// Schedules that have failed.
    pub schedules: u32,
    /// Of them, those that have not recovered since.
    pub failing: u32,
    /// Schedules that began to fail while it gathers.
    pub gathered: u32,
    /// Jobs that have failed.
    pub failures: u32,
}

/// What is known of the schedule whose event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// It has not failed in this incident.
    New,
    /// It fails.
    Failing,
    /// It has failed and recovered.
    Recovered,
}

/// What becomes of an alert about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes its own way, through the channel's flow.
    Alone,
    /// It is held until the incident is judged.
    Held,
    /// The incident's alert tells of it.
    Merged,
}

/// What becomes of an incident that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It goes on.
    Goes,
    /// It is told; what was held is merged into that alert.
    Open,
    /// It is not worth an alert of its own: what was held is sent one by one.
    Release,
    /// It is over, and that is told.
    Close,
    /// It is over.
    Forget,
}

impl IncidentState {
    /// A host against which nothing has failed yet.
    pub fn new(at: Timestamp) -> Self {
        Self {
            stage: Stage::Watching,
            gather_until: at,
            due_at: at,
            since: at,
            opened_at: None,
            last_failure_at: at,
            last_recovery_at: None,
            schedules: 0,
            failing: 0,
            gathered: 0,
            failures: 0,
        }
    }

    /// A job of a schedule has failed at `at`; `now` is when that is looked at.
    pub fn failed(
        &mut self,
        member: Member,
        at: Timestamp,
        now: Timestamp,
        rules: &GroupingRules,
    ) -> Verdict {
        self.failures = self.failures.saturating_add(1);
        self.last_failure_at = self.last_failure_at.max(at);
        if member == Member::New {
            self.schedules += 1;
        }
        if self.stage == Stage::Watching {
            self.stage = Stage::Gathering;
            self.gather_until = now.plus(rules.gather_most);
            self.gathered = 0;
        }
        if member != Member::Failing {
            self.failing += 1;
            self.gathered += 1;
        }
        if self.stage == Stage::Open {
            self.set_due(rules);
            return Verdict::Merged;
        }
        self.due_at = now.plus(rules.gather).min(self.gather_until);
        Verdict::Held
    }

    /// A job of a schedule that was failing has succeeded at `at`.
    pub fn recovered(&mut self, at: Timestamp, rules: &GroupingRules) -> Verdict {
        self.failing = self.failing.saturating_sub(1);
        self.last_recovery_at = self.last_recovery_at.max(Some(at));
        match self.stage {
            Stage::Gathering => Verdict::Held,
            Stage::Watching => {
                self.set_due(rules);
                Verdict::Alone
            }
            Stage::Open => {
                self.set_due(rules);
                Verdict::Merged
            }
        }
    }

    /// What becomes of it at `now`, after the events were taken in.
    pub fn judge(&mut self, now: Timestamp, rules: &GroupingRules) -> Judgement {
        match self.stage {
            Stage::Gathering if now < self.due_at => Judgement::Goes,
            Stage::Gathering => {
                let enough = self.failing.max(self.gathered) >= rules.incident_schedules;
                if enough && rules.incident_schedules > 0 {
                    (self.stage, self.opened_at) = (Stage::Open, Some(now));
                    self.set_due(rules);
                    return Judgement::Open;
                }
                self.stage = Stage::Watching;
                self.set_due(rules);
                Judgement::Release
            }
            Stage::Watching if self.failing == 0 || self.is_stale(now, rules) => Judgement::Forget,
            Stage::Watching => Judgement::Goes,
            Stage::Open if self.failing == 0 || self.is_calm(now, rules) => Judgement::Close,
            Stage::Open if self.is_stale(now, rules) => Judgement::Forget,
            Stage::Open => {
                self.set_due(rules);
                Judgement::Goes
            }
        }
    }

    /// Whether a schedule has succeeded since the last failure.
    fn is_recovering(&self) -> bool {
        self.last_recovery_at.is_some_and(|at| at >= self.last_failure_at)
    }

    fn is_calm(&self, now: Timestamp, rules: &GroupingRules) -> bool {
        self.calm_at(rules).is_some_and(|at| now >= at)
    }

    /// When it is calm, unless something happens before: nothing fails any more, or too few schedules to
    /// be an incident. The rest are told one by one then, instead of hiding behind the incident.
    fn calm_at(&self, rules: &GroupingRules) -> Option<Timestamp> {
        let recovered_at = self.last_recovery_at?;
        if self.failing < rules.incident_schedules {
            let quiet = self.is_recovering().then(|| self.last_failure_at.plus(rules.calm));
            let few = recovered_at.plus(rules.calm);
            return Some(quiet.map_or(few, |quiet| quiet.min(few)));
        }
        self.is_recovering().then(|| self.last_failure_at.plus(rules.calm))
    }

    fn is_stale(&self, now: Timestamp, rules: &GroupingRules) -> bool {
        now >= self.stale_at(rules)
    }

    fn stale_at(&self, rules: &GroupingRules) -> Timestamp {
        let quiet = self.last_failure_at.plus(rules.stale);
        self.opened_at.map_or(quiet, |at| quiet.min(at.plus(rules.longest)))
    }

    fn set_due(&mut self, rules: &GroupingRules) {
        let stale_at = self.stale_at(rules);
        self.due_at = match self.stage {
            Stage::Open if self.failing == 0 => self.last_failure_at,
            Stage::Open => self.calm_at(rules).map_or(stale_at, |calm_at| stale_at.min(calm_at)),
            Stage::Watching if self.failing == 0 => self.last_failure_at,
            _ => stale_at,
        };
    }
}

/// Whether events of this kind are about the host that failed.
pub fn concerns_host(kind: AlertKind) -> bool {
    matches!(kind, AlertKind::JobFailed | AlertKind::ScheduleRecovered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: GroupingRules = GroupingRules {
        per_minute: 2,
        incident_schedules: 3,
        gather: Duration::from_millis(500),
        gather_most: Duration::from_secs(2),
        calm: Duration::from_secs(60),
        stale: Duration::from_secs(600),
        longest: Duration::from_secs(3_600),
    };

    fn ms(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms)
    }

    fn failing(times: &[i64]) -> IncidentState {
        let mut state = IncidentState::new(ms(times[0]));
        for at in times {
            let verdict = state.failed(Member::New, ms(*at), ms(*at), &RULES);
            assert_eq!(verdict, Verdict::Held, "{at}");
        }
        state
    }

    #[test]
    fn a_channel_gets_so_many_alerts_a_minute_and_then_one_digest() {
        let mut flow = ChannelFlow::default();
        let mut take = |at| flow.take(ms(at), &RULES);
        assert_eq!((take(0), take(1)), (Flow::Send, Flow::Send));
        assert_eq!(take(2), Flow::BeginDigest { due: ms(60_000) });
        assert_eq!((take(3), take(59_999)), (Flow::JoinDigest, Flow::JoinDigest));
        assert_eq!((take(60_000), take(60_001)), (Flow::Send, Flow::Send));
        assert_eq!(take(60_002), Flow::BeginDigest { due: ms(120_000) });
    }

    #[test]
    fn a_limit_of_none_sends_everything() {
        let (mut flow, rules) = (ChannelFlow::default(), GroupingRules { per_minute: 0, ..RULES });
        assert!((0..1_000).all(|at| flow.take(ms(at), &rules) == Flow::Send));
    }

    #[test]
    fn one_failure_is_released_after_a_moment_and_forgotten_when_it_recovers() {
        let mut state = failing(&[0]);
        assert_eq!(state.judge(ms(499), &RULES), Judgement::Goes);
        assert_eq!(state.judge(ms(500), &RULES), Judgement::Release);
        assert_eq!(state.judge(ms(501), &RULES), Judgement::Goes);
        assert_eq!(state.recovered(ms(60_000), &RULES), Verdict::Alone);
        assert_eq!(state.judge(ms(60_000), &RULES), Judgement::Forget);
    }

    #[test]
    fn failures_that_come_one_after_the_other_are_gathered_but_not_for_ever() {
        let times: Vec<i64> = (0..10).map(|n| n * 400).collect();
        let state = failing(&times[..3]);
        assert_eq!(state.due_at, ms(1_300));
        let state = failing(&times);
        assert_eq!(state.due_at, ms(2_000), "gather_most");
    }

    #[test]
    fn enough_schedules_open_an_incident_that_takes_in_all_others() {
        let mut state = failing(&[0, 10, 20]);
        assert_eq!(state.judge(ms(520), &RULES), Judgement::Open);
        assert_eq!(state.failed(Member::New, ms(600), ms(600), &RULES), Verdict::Merged);
        assert_eq!(state.failed(Member::Failing, ms(700), ms(700), &RULES), Verdict::Merged);
        assert_eq!((state.schedules, state.failing, state.failures), (4, 4, 5));
        for at in [800, 801, 802] {
            assert_eq!(state.recovered(ms(at), &RULES), Verdict::Merged);
            assert_eq!(state.judge(ms(at), &RULES), Judgement::Goes);
        }
        assert_eq!(state.recovered(ms(803), &RULES), Verdict::Merged);
        assert_eq!(state.judge(ms(803), &RULES), Judgement::Close);
    }

    #[test]
    fn schedules_that_fail_one_by_one_make_an_incident_in_the_end() {
        let mut state = failing(&[0]);
        assert_eq!(state.judge(ms(500), &RULES), Judgement::Release);
        assert_eq!(state.failed(Member::New, ms(9_000), ms(9_000), &RULES), Verdict::Held);
        assert_eq!(state.judge(ms(9_500), &RULES), Judgement::Release);
        assert_eq!(state.failed(Member::Failing, ms(10_000), ms(10_000), &RULES), Verdict::Held);
        assert_eq!(state.judge(ms(10_500), &RULES), Judgement::Release, "two schedules fail");
        assert_eq!(state.failed(Member::New, ms(11_000), ms(11_000), &RULES), Verdict::Held);
        assert_eq!(state.judge(ms(11_500), &RULES), Judgement::Open);
    }

    #[test]
    fn schedules_that_fail_and_recover_while_gathered_make_one_incident_and_close_it() {
        let mut state = failing(&[0, 1, 2]);
        for at in [10, 11, 12] {
            assert_eq!(state.recovered(ms(at), &RULES), Verdict::Held);
        }
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Close);
    }

    #[test]
    fn an_incident_is_closed_when_some_recover_and_the_others_do_not_run() {
        let mut state = failing(&[0, 1, 2]);
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
        state.recovered(ms(1_000), &RULES);
        assert_eq!(state.due_at, ms(60_002));
        assert_eq!(state.judge(ms(60_001), &RULES), Judgement::Goes);
        assert_eq!(state.judge(ms(60_002), &RULES), Judgement::Close);
    }

    #[test]
    fn an_incident_does_not_hide_the_few_schedules_that_go_on_failing() {
        let mut state = failing(&[0, 1, 2]);
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
        state.recovered(ms(1_000), &RULES);
        for at in (10_000..60_000).step_by(10_000) {
            state.failed(Member::Failing, ms(at), ms(at), &RULES);
            assert_eq!(state.judge(ms(at), &RULES), Judgement::Goes);
        }
        assert_eq!(state.due_at, ms(61_000));
        assert_eq!(state.judge(ms(61_000), &RULES), Judgement::Close);
    }

    #[test]
    fn a_failure_after_a_recovery_keeps_it_open() {
        let mut state = failing(&[0, 1, 2]);
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
        state.recovered(ms(1_000), &RULES);
        state.failed(Member::Recovered, ms(2_000), ms(2_000), &RULES);
        assert_eq!((state.schedules, state.failing), (3, 3));
        assert_eq!(state.judge(ms(70_000), &RULES), Judgement::Goes);
    }

    #[test]
    fn what_is_quiet_or_old_is_forgotten_so_that_the_next_failure_is_told() {
        let mut state = failing(&[0, 1, 2]);
        assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
        assert_eq!(state.due_at, ms(600_002));
        assert_eq!(state.judge(ms(600_002), &RULES), Judgement::Forget);
        let mut state = failing(&[0, 1, 2]);
        state.judge(ms(502), &RULES);
        state.failed(Member::Failing, ms(3_600_000), ms(3_600_000), &RULES);
        assert_eq!(state.judge(ms(3_600_502), &RULES), Judgement::Forget);
        let mut state = failing(&[0]);
        state.judge(ms(502), &RULES);
        assert_eq!(state.judge(ms(600_000), &RULES), Judgement::Forget);
    }
}
