//! The steps of a run.

use std::time::Duration;

use punctual::domain::job::JobStatus;
use punctual::domain::schedule::{CatchUpPolicy, OverlapPolicy};
use punctual::store::UpkeepStore;

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::process::run;
use crate::world::World;

/// The kinds of steps.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Create,
    Change,
    Toggle,
    Delete,
    Trigger,
    Retry,
    Cancel,
    Lead,
    RescueJobs,
    Notify,
    Moment,
    Minute,
    Outage,
    Wipe,
    Repeat,
    Crash,
    Elect,
    RunDeposedLeaders,
    Race,
    OverlapEvents,
    Arm,
    RandomTurns,
    ChangeReachability,
    KillReplica,
    Pause,
}

/// The relative frequency of each step.
const STEPS: &[(u64, Step)] = &[
    (6, Step::Create),
    (7, Step::Change),
    (5, Step::Toggle),
    (2, Step::Delete),
    (8, Step::Trigger),
    (4, Step::Retry),
    (5, Step::Cancel),
    (14, Step::Lead),
    (8, Step::RescueJobs),
    (14, Step::Notify),
    (10, Step::Moment),
    (28, Step::Minute),
    (3, Step::Outage),
    (4, Step::Wipe),
    (6, Step::Repeat),
    (4, Step::Crash),
    (8, Step::Race),
    (6, Step::OverlapEvents),
    (12, Step::Arm),
];
/// The further steps of a single replica.
const ALONE: &[(u64, Step)] = &[(3, Step::Elect), (4, Step::RunDeposedLeaders)];
/// The further steps of a cluster.
const CLUSTER: &[(u64, Step)] = &[
    (6, Step::RandomTurns),
    (8, Step::ChangeReachability),
    (2, Step::KillReplica),
    (4, Step::Pause),
];

impl World {
    /// Draws the next step and executes it.
    pub async fn step(&mut self) {
        let further = if self.is_cluster() { CLUSTER } else { ALONE };
        let step = self.decisions.weighted(&[STEPS, further].concat());
        self.note(format_args!("{step:?}"));
        match step {
            Step::Create => self.create().await,
            Step::Change => self.change().await,
            Step::Toggle => self.toggle().await,
            Step::Delete => self.delete().await,
            Step::Trigger => self.trigger().await,
            Step::Retry => self.retry().await,
            Step::Cancel => self.cancel().await,
            Step::Lead => self.lead().await,
            Step::RescueJobs => self.rescue_jobs().await,
            Step::Notify => self.notify().await,
            Step::Moment => self.advance(Duration::from_millis(self.decisions.between(1, 5_000))),
            Step::Minute => self.minute().await,
            Step::Outage => self.outage().await,
            Step::Wipe => self.process().queue.wipe(),
            Step::Repeat => self.repeat().await,
            Step::Crash => self.restart().await,
            Step::Elect => self.process().elect(),
            Step::RunDeposedLeaders => self.run_deposed_leaders().await,
            Step::Race => self.race().await,
            Step::OverlapEvents => self.overlap_events().await,
            Step::Arm => self.arm(),
            Step::RandomTurns => self.random_turns().await,
            Step::ChangeReachability => self.change_reachability(),
            Step::KillReplica => self.kill_replica(),
            Step::Pause => self.pause().await,
        }
        // Without this, work in progress continues during the next steps.
        if self.decisions.percent(80) {
            self.settle().await;
        }
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
    }

    /// Advances to a full minute, sometimes a little past it, and usually runs the leader.
    async fn minute(&mut self) {
        let extra = *self.decisions.pick(&[0, 0, 1, 700, 1_500, 61_000]);
        let until = to_next_minute(self.clock.now()) + Duration::from_millis(extra);
        self.advance(until);
        if self.decisions.percent(85) {
            self.lead().await;
        }
    }

    /// Advances by minutes or days without a leader.
    async fn outage(&mut self) {
        let minutes = *self.decisions.pick(&[2, 5, 20, 130, 3_000]);
        self.advance(Duration::from_secs(minutes * 60 + self.decisions.below(60)));
    }

    /// LEAD-1: a replaced leader changes nothing, even if it reaches the due ticks first.
    async fn run_deposed_leaders(&mut self) {
        self.process().gate.disarm();
        // The new leader must have taken over.
        self.lead_after_pauses().await;
        if self.process().deposed_leaders.is_empty() {
            return;
        }
        self.advance(to_next_minute(self.clock.now()));
        self.settle().await;
        let before = self.ticked().await;
        let clock = self.clock.clone();
        let deposed_leaders = std::mem::take(&mut self.process().deposed_leaders);
        for mut deposed in deposed_leaders {
            // Twice: the first run may only detect that the index belongs to another leader.
            for _ in 0..2 {
                run(&mut deposed, &clock).await.expect("no fault is armed");
            }
            self.process().deposed_leaders.push(deposed);
        }
        self.expect_unchanged(&before).await;
        self.lead().await;
    }

    /// Returns the state that firing changes: jobs, skips and next ticks.
    pub async fn ticked(&mut self) -> Vec<String> {
        let mut state: Vec<_> = self.jobs().await.iter().map(|job| job.id.to_string()).collect();
        for id in self.history.alive() {
            state.push(format!("{id} {:?}", self.next_tick(id).await));
            state.push(format!("{:?}", self.skips(id).await));
        }
        state
    }

    /// LEAD-1: records a violation if something has ticked since `before`.
    pub async fn expect_unchanged(&mut self, before: &[String]) {
        let after = self.ticked().await;
        if after != before {
            let changed: Vec<_> = after.iter().filter(|now| !before.contains(now)).collect();
            self.record_violation(format_args!(
                "LEAD-1: a leader that was replaced has changed something: {changed:?}"
            ));
        }
    }

    /// Pushes tickets again: the newest ones, and random old ones.
    async fn repeat(&mut self) {
        let queue = self.process().queue.clone();
        let decisions = &self.decisions;
        let newest = |known: usize| known.saturating_sub(5)..known;
        let any = |known: usize| usize::try_from(decisions.below(known as u64)).expect("an index");
        let pick = |known| match known {
            0 => Vec::new(),
            _ => newest(known).chain((0..10).map(|_| any(known))).collect(),
        };
        queue.repeat(pick).await;
    }

    fn arm(&mut self) {
        let faults = [Fault::Refused, Fault::AnswerLost, Fault::Dies, Fault::DiesAfter];
        let (pass, fault) = (self.decisions.below(10), *self.decisions.pick(&faults));
        self.note(format_args!("after {pass} operations: {fault:?}"));
        self.process().gate.arm(pass, fault);
    }

    /// Requires that all due ticks have fired after the leader has run without faults.
    pub async fn none_is_due(&mut self) {
        for id in self.history.alive() {
            let tick = self.next_tick(id).await;
            let is_enabled = self.history.schedules[&id].wish.is_enabled;
            let now = self.clock.now();
            if is_enabled != tick.is_some_and(|tick| tick > now) {
                self.record_violation(format_args!(
                    "TICK-2: {id} (enabled: {is_enabled}) is due at {tick:?}"
                ));
            }
        }
    }

    /// Ends all faults and continues until all jobs are finished (JOB-3).
    pub async fn heal(&mut self) {
        self.process().gate.disarm();
        self.process().deposed_leaders.clear();
        self.note("heals");
        self.end_faults();
        self.settle().await;
        self.lead_after_pauses().await;
        self.none_is_due().await;
        // The comparison of the leader repairs a lost hint, and a new index replaces a lost queue.
        self.create_unhinted().await;
        self.process().gate.disarm();
        for is_wiped in [false, true] {
            self.advance(Duration::from_secs(61));
            if is_wiped {
                self.process().queue.wipe();
            }
            self.lead_until_quiet().await;
            self.none_is_due().await;
        }
        self.disable_all().await;
        for _ in 0..400 {
            self.rescue_jobs().await;
            self.lead().await;
            self.settle().await;
            if self.process().sqlite.unfinished(1).await.expect("read") == 0 {
                return self.tell_all().await;
            }
            self.advance(Duration::from_secs(11));
        }
        let unfinished = |status| !matches!(status, JobStatus::Success | JobStatus::Failed);
        let jobs = self.jobs().await;
        let left: Vec<_> = jobs.iter().filter(|job| unfinished(job.status)).take(3).collect();
        self.record_violation(format_args!("JOB-3: jobs never finish, such as {left:?}"));
    }
}

impl World {
    /// Continues until all alerts are delivered or given up.
    async fn tell_all(&mut self) {
        for _ in 0..2_000 {
            self.notify().await;
            self.settle().await;
            if self.all_told().await {
                return;
            }
            self.advance(Duration::from_secs(11));
        }
        self.record_violation("ALERT-1: alerts never become final");
    }
}

/// The policies to choose from.
pub const OVERLAPS: &[OverlapPolicy] =
    &[OverlapPolicy::Allow, OverlapPolicy::Skip, OverlapPolicy::QueueOne];
pub const CATCH_UPS: &[CatchUpPolicy] =
    &[CatchUpPolicy::Last, CatchUpPolicy::All, CatchUpPolicy::Skip];
