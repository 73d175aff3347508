//! Events in the middle of other operations.

use std::time::Duration;

use crate::calendar::to_next_minute;
use crate::process::run;
use crate::world::World;

/// The real time to wait for an operation of an executor, which may never be called.
const PATIENCE: Duration = Duration::from_millis(20);
/// The maximum real time that a slow operation takes.
const SLOWEST: Duration = Duration::from_millis(500);

/// Returns the call by which a replica fires. Those without an executor claim no jobs.
pub fn firing(place: Option<usize>) -> &'static str {
    if place.unwrap_or(0) == 0 { "fire_and_claim" } else { "fire" }
}

impl World {
    /// Lets users act between a read and the following write of the leader.
    pub async fn race(&mut self) {
        self.clock.advance(to_next_minute(self.clock.now()));
        let (clock, gate) = (self.clock.clone(), self.process().gate.clone());
        let place = self.some_replica();
        let mut leader = self.process().leader_of(place).take().expect("here");
        gate.hold(firing(place));
        let mut led = tokio::spawn(async move {
            let ended = run(&mut leader, &clock).await;
            (leader, ended)
        });
        let stop = led.abort_handle();
        // The leader may have nothing to fire, or meet a fault first.
        let without_call = gate.reached_by(&mut led).await;
        self.note(format_args!("the leader ended without firing: {}", without_call.is_some()));
        self.meddle().await;
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
                *self.process().leader_of(place) = Some(leader);
                self.has_led(ended);
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

    /// Lets users act on a schedule that is firing.
    async fn meddle(&mut self) {
        let mut due = Vec::new();
        for id in self.history.alive() {
            if self.next_tick(id).await.is_some_and(|tick| tick <= self.clock.now()) {
                due.push(id);
            }
        }
        if due.is_empty() {
            return;
        }
        let id = *self.dice.pick(&due);
        match self.dice.below(5) {
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
    pub async fn crossing(&mut self) {
        let gate = self.process().gate.clone();
        let slow = *self.dice.pick(&["claim", "commit", "renew", "cancelled"]);
        gate.hold(slow);
        self.trigger().await;
        let reached = tokio::time::timeout(PATIENCE, gate.reached()).await.is_ok();
        self.note(format_args!("{slow} is slow: {reached}"));
        if !reached {
            gate.release();
        }
        let mut events = Box::pin(self.cross());
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

    /// Lets two events happen.
    async fn cross(&mut self) {
        for _ in 0..2 {
            match self.dice.below(6) {
                0 | 1 => self.cancel().await,
                2 => self.delete().await,
                3 => self.rescue_jobs().await,
                4 => self.clock.advance(Duration::from_secs(self.dice.between(1, 70))),
                _ => self.lead().await,
            }
        }
    }
}
