//! The actions of users, and their record in the history.
//!
//! A command whose response is lost took effect completely or not at all: the stored state must be
//! the old or the new one.

use std::collections::HashSet;

use punctual::domain::audit::Author;
use punctual::domain::job::{Job, JobStatus};
use punctual::domain::request_body::object;
use punctual::domain::schedule::{OverlapPolicy, Schedule};
use punctual::domain::{JobId, ScheduleId, Timestamp};
use punctual::schedules::{CommandError, Schedules};
use punctual::store::{ScheduleQuery, ScheduleSort, ScheduleStore, SortField};
use serde::de::DeserializeOwned;

use crate::calendar::{Recurrence, Rhythm, ZONES};
use crate::gate::Fault;
use crate::history::{KnownSchedule, RequestWish, Wish};
use crate::steps::{CATCH_UPS, OVERLAPS};
use crate::world::World;

/// The maximum number of schedules at the same time.
const MOST: usize = 10;

impl World {
    /// Runs a command. Returns `None` if its response was lost.
    async fn command<T, F>(
        &mut self,
        command: impl FnOnce(Schedules) -> F,
    ) -> Option<Result<T, CommandError>>
    where
        F: Future<Output = Result<T, CommandError>>,
    {
        let (schedules, gate) = (self.process().schedules.clone(), self.process().gate.clone());
        let answer = tokio::select! {
            answer = command(schedules) => Some(answer),
            () = gate.died() => None,
        };
        match answer {
            None => {
                self.restart().await;
                None
            }
            Some(Err(CommandError::Store(error))) if error.is_transient() => {
                self.note(format_args!("lost: {error}"));
                None
            }
            Some(answer) => Some(answer),
        }
    }

    fn recurrence(&self) -> Recurrence {
        let decisions = &self.decisions;
        let number = |end| i64::try_from(decisions.below(end)).expect("small");
        let rhythm = match decisions.below(10) {
            0..4 => Rhythm::EveryMinute,
            4..7 => Rhythm::EveryMinutes(*decisions.pick(&[2, 3, 5, 7, 15])),
            7..9 => Rhythm::Hourly(number(60)),
            _ => Rhythm::Daily(number(24), number(60)),
        };
        Recurrence { rhythm, zone: *decisions.pick(ZONES) }
    }

    fn request(&self) -> RequestWish {
        let decisions = &self.decisions;
        RequestWish {
            tag: format!("v{}", self.trace.len()),
            expected: decisions.percent(15).then(|| *decisions.pick(&[200, 404, 500])),
            max_retries: *decisions.pick(&[1, 2, 3, 4]),
            timeout_seconds: *decisions.pick(&[5, 30, 60]),
        }
    }

    fn wish(&self) -> Wish {
        let decisions = &self.decisions;
        Wish {
            name: format!("s{}", self.trace.len()),
            recurrence: self.recurrence(),
            is_enabled: decisions.percent(85),
            overlap: *decisions.pick(OVERLAPS),
            catch_up: *decisions.pick(CATCH_UPS),
            request: self.request(),
        }
    }

    fn some_schedule(&self) -> Option<ScheduleId> {
        let alive = self.history.alive();
        (!alive.is_empty()).then(|| *self.decisions.pick(&alive))
    }

    async fn stored(&mut self, id: ScheduleId) -> Option<Schedule> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        sqlite.schedule(account, id).await.expect("read")
    }

    pub async fn next_tick(&mut self, id: ScheduleId) -> Option<Timestamp> {
        self.stored(id).await.and_then(|schedule| schedule.next_tick)
    }

    fn fields<T: DeserializeOwned>(&self, wish: &Wish) -> T {
        let json = wish.json(&self.target.url(&wish.request.path()));
        object(&json).expect("an object")
    }

    pub async fn create(&mut self) {
        if self.history.alive().len() < MOST {
            let wish = self.wish();
            self.create_one(wish).await;
        }
    }

    fn every_minute(&self) -> Wish {
        let recurrence = Recurrence { rhythm: Rhythm::EveryMinute, zone: ZONES[0] };
        Wish { recurrence, is_enabled: true, ..self.wish() }
    }

    /// Creates a schedule that runs each minute and allows overlap.
    pub async fn create_every_minute(&mut self) {
        let wish = Wish { overlap: OverlapPolicy::Allow, ..self.every_minute() };
        self.create_one(wish).await;
    }

    /// Creates a schedule without a hint to the leader.
    pub async fn create_unhinted(&mut self) {
        let wish = self.every_minute();
        // The operation after the write is the hint.
        self.process().gate.arm(1, Fault::Refused);
        self.create_one(wish).await;
    }

    async fn create_one(&mut self, wish: Wish) {
        let (now, account) = (self.clock.now(), self.account);
        let fields = self.fields(&wish);
        let answer = self
            .command(|all| async move { all.create(account, Author::SERVICE.into(), fields).await })
            .await;
        let found = match answer {
            Some(created) => Some(created.expect("a valid schedule").id),
            None => self.named(&wish.name).await,
        };
        let Some(id) = found else { return };
        let stored = self.stored(id).await;
        if stored.is_none_or(|stored| !wish.is(&stored)) {
            self.record_violation(format_args!("{id} was created otherwise than {wish:?}"));
        }
        self.note(format_args!("created {id} {wish:?}"));
        self.history.schedules.insert(id, KnownSchedule::new(wish, now));
        self.prefer(id).await;
    }

    async fn named(&mut self, name: &str) -> Option<ScheduleId> {
        let query = ScheduleQuery {
            contains: Some(name.to_owned()),
            is_enabled: None,
            http_method: None,
            is_failing: None,
            sort: ScheduleSort { field: SortField::Name, descending: false },
            after: None,
            offset: 0,
            limit: 100,
            max_bytes: 1 << 20,
        };
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        let page = sqlite.schedules(account, &query).await.expect("read");
        page.schedules.iter().find(|schedule| schedule.name == name).map(|schedule| schedule.id)
    }

    pub async fn change(&mut self) {
        if let Some(id) = self.some_schedule() {
            self.change_one(id).await;
        }
    }

    pub async fn change_one(&mut self, id: ScheduleId) {
        let mut wish = self.history.schedules[&id].wish.clone();
        match self.decisions.below(4) {
            0 => wish.recurrence = self.recurrence(),
            1 => wish.request = self.request(),
            2 => wish.overlap = *self.decisions.pick(OVERLAPS),
            _ => {
                wish.catch_up = *self.decisions.pick(CATCH_UPS);
                wish.recurrence = self.recurrence();
                wish.request = self.request();
            }
        }
        self.apply(id, wish).await;
    }

    pub async fn toggle(&mut self) {
        if let Some(id) = self.some_schedule() {
            self.toggle_one(id).await;
        }
    }

    pub async fn toggle_one(&mut self, id: ScheduleId) {
        let mut wish = self.history.schedules[&id].wish.clone();
        wish.is_enabled = !wish.is_enabled;
        self.apply(id, wish).await;
    }

    pub async fn disable_all(&mut self) {
        for id in self.history.alive() {
            let mut wish = self.history.schedules[&id].wish.clone();
            wish.is_enabled = false;
            self.apply(id, wish).await;
        }
    }

    /// Updates a schedule, and requires that it is stored as `wish` says. If the response is lost,
    /// it may also be unchanged.
    async fn apply(&mut self, id: ScheduleId, wish: Wish) {
        let (now, account, fields) = (self.clock.now(), self.account, self.fields(&wish));
        let answer = self
            .command(
                |all| async move { all.update(account, Author::SERVICE.into(), id, fields).await },
            )
            .await;
        let lost = answer.is_none();
        if let Some(Err(error)) = answer {
            self.record_violation(format_args!("{id} could not be changed: {error}"));
            return;
        }
        let stored = self.stored(id).await.expect("not deleted");
        let old = self.history.schedules[&id].wish.clone();
        let took_effect = wish.is(&stored);
        if !(took_effect || lost && old.is(&stored)) {
            self.record_violation(format_args!("{id} is {stored:?}, neither {old:?} nor {wish:?}"));
        }
        if took_effect {
            self.note(format_args!("{id} is now {wish:?}"));
            let known = self.history.schedules.get_mut(&id).expect("known");
            known.change(wish, now);
        }
    }

    pub async fn delete(&mut self) {
        if let Some(id) = self.some_schedule() {
            self.delete_one(id).await;
        }
    }

    pub async fn delete_one(&mut self, id: ScheduleId) {
        let (now, account) = (self.clock.now(), self.account);
        let answer = self
            .command(|all| async move { all.delete(account, Author::SERVICE.into(), id).await })
            .await;
        let gone = self.stored(id).await.is_none();
        if answer.is_some_and(|answer| answer.is_err() || !gone) {
            self.record_violation(format_args!("{id} could not be deleted"));
        }
        if !gone {
            return;
        }
        self.note(format_args!("deleted {id}"));
        let jobs = self.jobs().await;
        let of_it: HashSet<_> =
            jobs.iter().filter(|job| job.schedule_id == id).map(|job| job.id).collect();
        for job in jobs.iter().filter(|job| job.schedule_id == id) {
            if job.status == JobStatus::Pending {
                self.record_violation(format_args!(
                    "TICK-4: {} waits though its schedule is deleted",
                    job.id
                ));
            }
        }
        self.history.schedules.get_mut(&id).expect("known").delete(now, of_it);
    }

    pub async fn trigger(&mut self) {
        let Some(id) = self.some_schedule() else { return };
        let account = self.account;
        let answer = self
            .command(|all| async move { all.trigger(account, Author::SERVICE.into(), id).await })
            .await;
        self.record_created_job(answer).await;
    }

    pub async fn retry(&mut self) {
        let deleted =
            |world: &Self, job: &Job| world.history.schedules[&job.schedule_id].deleted.is_some();
        let jobs = self.jobs().await;
        let finished = |job: &&Job| job.status.is_final() && !deleted(self, job);
        let finished: Vec<_> = jobs.iter().filter(finished).map(|job| job.id).collect();
        if finished.is_empty() {
            return;
        }
        let (account, of) = (self.account, *self.decisions.pick(&finished));
        let answer = self
            .command(|all| async move { all.retry_job(account, Author::SERVICE.into(), of).await })
            .await;
        self.record_created_job(answer).await;
    }

    /// Records the job id that a command returned. The job must exist at once.
    async fn record_created_job(&mut self, answer: Option<Result<JobId, CommandError>>) {
        match answer {
            None => self.history.unanswered += 1,
            Some(Err(error)) => self.record_violation(format_args!("no job was made: {error}")),
            Some(Ok(job)) => {
                self.note(format_args!("promised {job}"));
                self.history.promised.push(job);
                self.attempts(job).await;
            }
        }
    }

    pub async fn cancel(&mut self) {
        let jobs = self.jobs().await;
        let open: Vec<_> =
            jobs.iter().filter(|job| !job.status.is_final()).map(|job| job.id).collect();
        if open.is_empty() {
            return;
        }
        let (account, id) = (self.account, *self.decisions.pick(&open));
        let answer = self
            .command(|all| async move { all.cancel_job(account, Author::SERVICE.into(), id).await })
            .await;
        match answer {
            // The job may have finished in the meantime.
            Some(Err(CommandError::JobFinished)) => {}
            Some(Err(error)) => {
                self.record_violation(format_args!("{id} could not be cancelled: {error}"));
            }
            Some(Ok(_)) => {
                self.note(format_args!("cancelled {id}"));
                let now = self.clock.now();
                self.history.cancelled.insert(id, Some(now));
            }
            None => {
                self.history.cancelled.entry(id).or_default();
            }
        }
    }
}
