//! Shards that are not asked for a while, because their server failed and others did not. Otherwise
//! each look would wait for that server, and delay the tickets of all shards.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::domain::shard::ShardId;
use crate::queue::{QueueError, Result};
use crate::runtime::{Clock, Mutex};

/// The time for which a shard backs off. A cluster takes longer than this to replace a failed
/// server.
const BACK_OFF: Duration = Duration::from_secs(2);

/// The shards that back off.
pub(super) struct BackOff {
    state: Mutex<BackingOff>,
    clock: Clock,
}

#[derive(Default)]
struct BackingOff {
    /// The end of each shard's back-off, on the monotonic clock.
    until: HashMap<ShardId, Duration>,
    /// The shards that have failed since they last answered; these failures are in the log.
    logged: HashSet<ShardId>,
}

impl BackOff {
    pub(super) fn new(clock: Clock) -> Self {
        Self { state: Mutex::default(), clock }
    }

    /// Returns those of `shards` shards that do not back off.
    pub(super) fn ready(&self, shards: u16) -> Vec<ShardId> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        state.until.retain(|_, until| now < *until);
        (0..shards).map(ShardId).filter(|shard| !state.until.contains_key(shard)).collect()
    }

    /// Returns the answers of the shards that have answered; the others back off. If all have
    /// failed, the server has, and the error is returned.
    pub(super) fn unless_all_fail<'a, T>(
        &self,
        answers: impl IntoIterator<Item = (&'a [ShardId], Result<T>)>,
    ) -> Result<Vec<T>> {
        let (mut answered, mut well, mut failed, mut why) =
            (Vec::new(), Vec::new(), Vec::new(), None);
        for (shards, answer) in answers {
            match answer {
                Ok(answer) => {
                    answered.push(answer);
                    well.extend(shards);
                }
                Err(error) => {
                    failed.extend(shards.iter().copied());
                    why.get_or_insert(error);
                }
            }
        }
        match why {
            Some(error) if answered.is_empty() => return Err(error),
            Some(error) => {
                self.state.lock().fail(&failed, self.clock.monotonic() + BACK_OFF, &error);
            }
            None => {}
        }
        self.state.lock().answer(&well);
        Ok(answered)
    }
}

impl BackingOff {
    /// Lets shards back off. Logs a failure only for shards that have not failed before, because
    /// all are tried again and again.
    fn fail(&mut self, shards: &[ShardId], until: Duration, error: &QueueError) {
        self.until.extend(shards.iter().map(|shard| (*shard, until)));
        let before = self.logged.len();
        self.logged.extend(shards);
        if self.logged.len() > before {
            let shards = self.logged.len();
            tracing::warn!(%error, shards, "part of the queue's cluster fails, the rest goes on");
        }
    }

    fn answer(&mut self, shards: &[&ShardId]) {
        let before = self.logged.len();
        self.logged.retain(|shard| !shards.contains(&shard));
        if before > 0 && self.logged.is_empty() {
            tracing::info!("all of the queue's cluster answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn failed() -> Result<u8> {
        Err(QueueError::new("take", "it is down"))
    }

    #[test]
    fn a_shard_that_fails_beside_others_backs_off_for_a_while() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let back_off = BackOff::new(clock.clone());
        let answers = [(&[ShardId(0), ShardId(2)][..], failed()), (&[ShardId(1)], Ok(7))];
        assert_eq!(back_off.unless_all_fail(answers).expect("some answer"), [7]);
        assert_eq!(back_off.ready(4), [ShardId(1), ShardId(3)]);
        assert_eq!(back_off.state.lock().logged.len(), 2, "both have been logged");
        clock.advance(BACK_OFF);
        assert_eq!(back_off.ready(4).len(), 4);
        let answers = [(&[ShardId(0)][..], failed()), (&[ShardId(2)], Ok(7))];
        back_off.unless_all_fail(answers).expect("some answer");
        assert_eq!(back_off.state.lock().logged, HashSet::from([ShardId(0)]));
        clock.advance(BACK_OFF);
        back_off.unless_all_fail([(&[ShardId(0), ShardId(1)][..], Ok(7))]).expect("all answer");
        assert!(back_off.state.lock().logged.is_empty(), "it is logged when they fail again");
    }

    #[test]
    fn if_all_fail_no_shard_backs_off() {
        let back_off = BackOff::new(Clock::manual(Timestamp::from_millis(0)));
        let answers = [(&[ShardId(0)][..], failed()), (&[ShardId(1)], failed())];
        back_off.unless_all_fail(answers).expect_err("no server answers");
        assert_eq!(back_off.ready(2).len(), 2);
        assert!(
            back_off
                .unless_all_fail(Vec::<(_, Result<u8>)>::new())
                .expect("asked for nothing")
                .is_empty()
        );
    }
}
