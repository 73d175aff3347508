//! Events in the middle of other operations.

use std::time::Duration;

use crate::calendar::to_next_minute;
use crate::process::run;
use crate::world::World;

/// The real time to wait for an operation of an executor, which may never be called.
const TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum real time that a slow operation takes.
const SLOWEST: Duration = Duration::from_millis(500);

/// Returns the call by which a replica fires. Those without an executor claim no jobs.
pub fn firing(index: Option<usize>) -> &'static str {
    if index.unwrap_or(0) == 0 { "fire_and_claim" } else { "fire" }
}

impl World {
    /// Lets users act between a read and the following write of the leader.
    pub async fn race(&mut self) {
        self.clock.advance(to_next_minute(self.clock.now()));
        let (clock, gate) = (self.clock.clone(), self.process().gate.clone());
        let index = self.some_replica();
        let mut leader = self.process().leader_of(index).take().expect("here");
        gate.hold(firing(index));
        let mut led = tokio::spawn(async move {
            let ended = run(&mut leader, &clock).await;
            (leader, ended)
        });
        let stop = led.abort_handle();
        // The leader may have nothing to fire, or meet a fault first.
        let without_call = gate.reached_by(&mut led).await;
        self.note(format_args!("the leader ended without firing: {}", without_call.is_some()));
        self.change_while_firing().await;
        gate.release();
        let ended = match without_call {
            Some(ended) => Some(ended),
            None => tokio::select! {
                ended = led => Some(ended),
                () = gate.died() => None,
            },
        };
        match ended.map(|ended| ended.expect("the leader does not panic")) {
            Some((leader, ended)) => {
                *self.process().leader_of(index) = Some(leader);
                self.record_lead_result(ended);
            }
            None => {
                stop.abort();
                // The process may have been restarted by the users' commands already.
                if self.process().gate.is_dead() {
                    self.restart().await;
                }
            }
        }
    }

    /// Changes, toggles or deletes a schedule that is firing.
    async fn change_while_firing(&mut self) {
        let mut due = Vec::new();
        for id in self.history.alive() {
            if self.next_tick(id).await.is_some_and(|tick| tick <= self.clock.now()) {
                due.push(id);
            }
        }
        if due.is_empty() {
            return;
        }
        let id = *self.decisions.pick(&due);
        match self.decisions.below(5) {
            0 => self.delete_one(id).await,
            1 => self.change_one(id).await,
            2 => self.toggle_one(id).await,
            _ => {
                // Off and on again: only the next tick changes.
                self.toggle_one(id).await;
                self.toggle_one(id).await;
            }
        }
    }

    /// Makes one store operation of an executor slow, and lets other events happen in the meantime.
    pub async fn overlap_events(&mut self) {
        let gate = self.process().gate.clone();
        let slow = *self.decisions.pick(&["claim", "commit", "renew", "aborts"]);
        gate.hold(slow);
        self.trigger().await;
        let reached = tokio::time::timeout(TIMEOUT, gate.reached()).await.is_ok();
        self.note(format_args!("{slow} is slow: {reached}"));
        if !reached {
            gate.release();
        }
        let mut events = Box::pin(self.run_two_events());
        // An event can need the slow operation: a leader that fires waits for the renewal of the
        // lease.
        let is_over = tokio::time::timeout(SLOWEST, &mut events).await.is_ok();
        if reached {
            gate.release();
        }
        if !is_over {
            events.await;
        }
    }

    /// Runs two random events.
    async fn run_two_events(&mut self) {
        for _ in 0..2 {
            match self.decisions.below(6) {
                0 | 1 => self.cancel().await,
                2 => self.delete().await,
                3 => self.rescue_jobs().await,
                4 => self.clock.advance(Duration::from_secs(self.decisions.between(1, 70))),
                _ => self.lead().await,
            }
        }
    }
}
