//! Random histories of schedules that fail and recover, of channels that are created, verified and
//! deleted, and of notifiers that deliver, fail and crash. No event is lost, and no delivery waits
//! forever (ALERT-1).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use punctual::domain::alert::AlertKind;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::alert::grouping::{GroupingRules, concerns_host};
use punctual::domain::alert::policy::{AlertPolicy, JobEnd, Streak};
use punctual::domain::plan::NotifyOn;
use punctual::domain::ticket::HostKey;
use punctual::domain::{ChannelId, DeliveryId, JobId, ScheduleId, Timestamp};
use punctual::runtime::Random;
use punctual::store::{
    AlertWork, AttemptEnd, Delivery, DeliveryClaim, DeliveryContent, NewPreference, PreferenceSet,
    Redelivered, TryOutcome,
};

use super::alerts::try_end;
use super::world::{World, failure, minute};

const STEPS: usize = 70;

struct ModelSchedule {
    id: ScheduleId,
    policy: AlertPolicy,
    streak: Streak,
    channels: Vec<ChannelId>,
    is_deleted: bool,
}

/// An alert about a job, with its channel.
type JobAlert = (&'static str, JobId, Option<ChannelId>);

struct History<'w> {
    w: &'w World,
    random: Random,
    rules: GroupingRules,
    now: Timestamp,
    schedules: Vec<ModelSchedule>,
    /// The existing channels, and whether they are verified.
    channels: BTreeMap<ChannelId, bool>,
    /// The raised events that are not relayed yet.
    outbox: Vec<(AlertKind, JobId, usize)>,
    expected: BTreeSet<JobAlert>,
    /// The content of each digest.
    digests: HashMap<DeliveryId, DeliveryContent>,
}

impl History<'_> {
    fn roll(&self, sides: usize) -> usize {
        usize::try_from(self.random.bits() % sides as u128).expect("a few")
    }

    fn count(&self, sides: u8) -> u32 {
        1 + u32::try_from(self.roll(sides.into())).expect("a few")
    }

    fn pick<T: Copy>(&self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.roll(of.len())])
    }

    fn channel(&self) -> Option<ChannelId> {
        self.pick(&self.channels.keys().copied().collect::<Vec<_>>())
    }

    async fn step(&mut self) {
        let ms = [0, 1, 300, 600, 5_000, 40_000, 130_000][self.roll(7)];
        self.now = self.now.plus(Duration::from_millis(ms));
        match self.roll(20) {
            0..6 => self.end_jobs().await,
            6..10 => self.relay().await,
            10..14 => self.deliver().await,
            14 => self.set_preference().await,
            15 => self.add_or_delete_channel().await,
            16 => self.toggle_channel().await,
            17 => self.redeliver().await,
            18 => {
                self.w.store.release_deliveries(self.now).await.expect("release");
            }
            _ if self.roll(6) == 0 => self.delete_schedule().await,
            _ => self.end_jobs().await,
        }
    }

    async fn end_jobs(&mut self) {
        let indexes: Vec<usize> =
            (0..self.schedules.len()).filter(|index| !self.schedules[*index].is_deleted).collect();
        let fails = self.roll(3) > 0;
        let mut batch = Vec::new();
        for _ in 0..=self.roll(8) {
            let Some(index) = self.pick(&indexes) else { return };
            let job = self.w.manual_job(self.schedules[index].id, self.now).await;
            let claimed = self.w.claim(self.now, &[job]).await.remove(0);
            let fails = fails ^ (self.roll(5) == 0);
            let end = if fails { AttemptEnd::Failed(failure()) } else { AttemptEnd::Succeeded };
            batch.push(self.w.completion(&claimed, None, end));
            self.expect(index, job, if fails { JobEnd::Failed } else { JobEnd::Succeeded });
        }
        self.w.commit(self.now, &batch).await;
    }

    fn expect(&mut self, index: usize, job: JobId, end: JobEnd) {
        let known = &mut self.schedules[index];
        let (raised, streak) = known.policy.judge(known.streak, end, self.now);
        known.streak = streak;
        if known.policy.notify_on != NotifyOn::None {
            let wanted = raised.into_iter().filter(|raised| raised.wanted);
            self.outbox.extend(wanted.map(|raised| (raised.kind, job, index)));
        }
    }

    async fn relay(&mut self) {
        self.w.relay(self.now, &self.rules).await;
        for (kind, job, index) in std::mem::take(&mut self.outbox) {
            let known = &self.schedules[index];
            let told = known.channels.iter().filter(|id| self.channels.get(id) == Some(&true));
            let told: Vec<_> = told.map(|id| Some(*id)).collect();
            let told = if told.is_empty() || known.is_deleted { vec![None] } else { told };
            self.expected.extend(told.into_iter().map(|to| (kind.as_str(), job, to)));
        }
        self.check(&self.w.deliveries().await);
    }

    /// ALERT-1: each wanted event has a delivery to each of its channels, or a record of its
    /// failure.
    fn check(&self, all: &[Delivery]) {
        let of_jobs =
            |one: &&Delivery| concerns_host(one.kind) || one.kind == AlertKind::JobSucceeded;
        let told = all.iter().filter(of_jobs);
        let told: Vec<JobAlert> =
            told.map(|one| (one.kind.as_str(), one.job.expect("a job"), one.channel)).collect();
        assert_eq!(told.len(), self.expected.len(), "none twice");
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), self.expected);
    }

    async fn deliver(&mut self) {
        let claim = DeliveryClaim {
            limit: self.count(20),
            per_channel: self.count(6),
            ..self.w.delivery_claim(self.now)
        };
        let taken = self.w.store.claim_deliveries(&claim).await.expect("claim").taken;
        let (mut ends, mut gone) = (Vec::new(), Vec::new());
        for claimed in taken {
            assert_ne!(claimed.content, DeliveryContent::Gone, "{claimed:?}");
            if claimed.kind == AlertKind::Digest {
                let before = self.digests.insert(claimed.id, claimed.content.clone());
                assert!(before.is_none_or(|before| before == claimed.content), "{claimed:?}");
            }
            let later = self.now.plus(Duration::from_secs(20));
            let failed = |retry_at, paused_until, gone| TryOutcome::Failed {
                code: if gone { DeliveryError::ChannelGone } else { DeliveryError::HttpStatus },
                message: "no".into(),
                retry_at,
                paused_until,
                gone,
            };
            let outcome = match self.roll(16) {
                0..8 => TryOutcome::Delivered,
                8..11 if claimed.attempt_of_round < 5 => failed(Some(later), None, false),
                11 if claimed.attempt_of_round < 5 => failed(Some(later), Some(later), false),
                12 => {
                    gone.push(claimed.channel);
                    failed(None, None, true)
                }
                // The notifier crashes.
                13 | 14 => continue,
                _ => failed(None, None, false),
            };
            ends.push(try_end(&claimed, self.now, outcome));
        }
        let applied = self.w.store.complete_tries(self.now, &ends).await.expect("complete");
        assert!(applied.into_iter().all(|applied| applied));
        for channel in gone {
            self.channels.entry(channel).and_modify(|verified| *verified = false);
        }
    }

    async fn set_preference(&mut self) {
        let index = self.roll(self.schedules.len());
        let channels: Vec<ChannelId> =
            self.channels.keys().copied().filter(|_| self.roll(2) == 0).collect();
        let policy = AlertPolicy {
            notify_on: NotifyOn::ALL[self.roll(4)],
            failure_threshold: self.count(3),
            notify_on_recovery: self.roll(2) == 0,
            repeat_every_minutes: (self.roll(3) == 0).then_some(2),
        };
        let new = NewPreference { policy, channels: channels.clone() };
        let (id, write) = (self.schedules[index].id, self.w.write(self.now));
        let set = self.w.store.set_preference(&write, id, &new).await.expect("set");
        let can = channels.iter().all(|id| self.channels[id]);
        match set {
            PreferenceSet::Done => {
                assert!(can && !self.schedules[index].is_deleted);
                let known = &mut self.schedules[index];
                (known.policy, known.channels) = (policy, channels);
                if policy.notify_on == NotifyOn::None {
                    known.streak.told_at = None;
                }
            }
            PreferenceSet::NoSuchSchedule => assert!(self.schedules[index].is_deleted),
            refused => assert!(!can, "{refused:?}"),
        }
    }

    async fn add_or_delete_channel(&mut self) {
        if self.channels.len() < 4 {
            self.channels.insert(self.w.channel("another").await, true);
        } else if let Some(id) = self.channel() {
            let write = self.w.write(self.now);
            assert!(self.w.store.delete_channel(&write, id).await.expect("delete"));
            self.channels.remove(&id);
        }
    }

    async fn toggle_channel(&mut self) {
        let Some(id) = self.channel() else { return };
        if self.channels[&id] {
            let write = self.w.write(self.now);
            assert!(self.w.store.unverify_channel(&write, id, "left").await.expect("unverify"));
            self.channels.insert(id, false);
        } else {
            self.w.verify(id).await;
            self.channels.insert(id, true);
        }
    }

    async fn redeliver(&self) {
        let all = self.w.deliveries().await;
        let failed: Vec<_> =
            all.iter().filter(|one| one.status == DeliveryStatus::Failed).collect();
        let Some(one) = self.pick(&failed) else { return };
        let write = self.w.write(self.now);
        let done = self.w.store.redeliver(&write, one.id).await.expect("redeliver");
        let expected = match one.channel.and_then(|id| self.channels.get(&id)) {
            None => Redelivered::NoChannel,
            Some(false) => Redelivered::Unverified,
            Some(true) => Redelivered::Done,
        };
        assert_eq!(done, expected);
    }

    async fn delete_schedule(&mut self) {
        let index = self.roll(self.schedules.len());
        let write = self.w.write(self.now);
        let id = self.schedules[index].id;
        let gone = self.w.store.delete_schedule(&write, id).await.expect("delete");
        assert_eq!(gone, !self.schedules[index].is_deleted);
        self.schedules[index].is_deleted = true;
    }

    /// Does all due work and advances the clock, until no work is left.
    async fn drain(&mut self) {
        self.relay().await;
        for _ in 0..2_000 {
            let work = self.w.work(self.now).await;
            if work.relay {
                self.w.relay(self.now, &self.rules).await;
            } else if work.deliver {
                self.deliver().await;
            } else if let Some(next) = work.next {
                assert!(next > self.now, "it is due, and no worker does it: {work:?}");
                self.now = next;
            } else {
                assert_eq!(work, AlertWork::default());
                return;
            }
        }
        panic!("it has no end");
    }

    async fn judge(&self) {
        let all = self.w.deliveries().await;
        self.check(&all);
        let by_id: HashMap<_, _> = all.iter().map(|one| (one.id, one)).collect();
        for one in &all {
            assert_eq!(one.next_try_at, None);
            assert!(one.completed_at.is_some(), "{one:?}");
            match one.status {
                DeliveryStatus::Pending => panic!("it never becomes final: {one:?}"),
                DeliveryStatus::Delivered => {
                    let last = one.tries.last().expect("a try");
                    assert_eq!((last.number, last.error_code), (one.tries_made, None));
                }
                DeliveryStatus::Failed => assert!(one.error_code.is_some(), "{one:?}"),
                DeliveryStatus::Merged => {
                    let into = by_id[&one.merged_into.expect("another one")];
                    let kinds = [AlertKind::Digest, AlertKind::IncidentOpened];
                    assert!(kinds.contains(&into.kind) && into.channel == one.channel, "{into:?}");
                    assert!(one.tries.is_empty());
                }
            }
            assert!(one.tries.iter().map(|made| made.number).eq(1..=one.tries_made), "{one:?}");
        }
        for (id, content) in &self.digests {
            let DeliveryContent::Digest(digest) = content else { panic!("{content:?}") };
            let merged = all.iter().filter(|one| one.merged_into == Some(*id));
            assert_eq!(digest.total() as usize, merged.count(), "all merged alerts are counted");
        }
    }
}

pub async fn whatever_happens_every_event_is_reported_or_recorded(w: &World) {
    let mut expected = BTreeSet::new();
    for (seed, start) in (0..4).zip((2..).step_by(1_000)) {
        let rules = GroupingRules {
            per_minute: [0, 2, 4, 3][seed],
            incident_schedules: [0, 2, 3, 3][seed],
            stale: Duration::from_secs(600),
            ..GroupingRules::default()
        };
        let mut history = History {
            w,
            random: Random::seeded(seed as u64),
            rules,
            now: minute(start),
            schedules: Vec::new(),
            channels: BTreeMap::new(),
            outbox: Vec::new(),
            expected,
            digests: HashMap::new(),
        };
        for n in 0..8 {
            let host = HostKey(1 + n % 2);
            let id = w.schedule_with(|new| new.version.host = host).await;
            let (policy, streak) = (AlertPolicy::default(), Streak::default());
            let channels = Vec::new();
            history.schedules.push(ModelSchedule {
                id,
                policy,
                streak,
                channels,
                is_deleted: false,
            });
        }
        for _ in 0..3 {
            history.add_or_delete_channel().await;
        }
        for _ in 0..12 {
            history.set_preference().await;
        }
        for _ in 0..STEPS {
            history.step().await;
        }
        history.drain().await;
        history.judge().await;
        for channel in history.channels.keys() {
            let write = w.write(history.now);
            assert!(w.store.delete_channel(&write, *channel).await.expect("delete"));
        }
        expected = history.expected;
    }
}
