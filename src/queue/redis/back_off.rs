//! Shards that are not asked for a while, because their server failed and others did not. Otherwise
//! each look would wait for that server, and delay the tickets of all shards.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::domain::shard::ShardId;
use crate::queue::{QueueError, Result};
use crate::runtime::{Clock, Mutex};

/// The time for which a shard rests. A cluster takes longer than this to replace a failed server.
const REST: Duration = Duration::from_secs(2);

/// The shards that rest.
pub(super) struct BackOff {
    resting: Mutex<BackingOff>,
    clock: Clock,
}

#[derive(Default)]
struct BackingOff {
    /// The end of each shard's rest, on the monotonic clock.
    until: HashMap<ShardId, Duration>,
    /// The shards that have failed since they last answered; these failures are in the log.
    told: HashSet<ShardId>,
}

impl BackOff {
    pub(super) fn new(clock: Clock) -> Self {
        Self { resting: Mutex::default(), clock }
    }

    /// Returns those of `shards` shards that do not rest.
    pub(super) fn awake(&self, shards: u16) -> Vec<ShardId> {
        let now = self.clock.monotonic();
        let mut resting = self.resting.lock();
        resting.until.retain(|_, until| now < *until);
        (0..shards).map(ShardId).filter(|shard| !resting.until.contains_key(shard)).collect()
    }

    /// Returns the answers of the shards that have answered; the others rest. If all have failed,
    /// the server has, and the error is returned.
    pub(super) fn unless_all_fail<'a, T>(
        &self,
        answers: impl IntoIterator<Item = (&'a [ShardId], Result<T>)>,
    ) -> Result<Vec<T>> {
        let (mut told, mut well, mut failed, mut why) = (Vec::new(), Vec::new(), Vec::new(), None);
        for (shards, answer) in answers {
            match answer {
                Ok(answer) => {
                    told.push(answer);
                    well.extend(shards);
                }
                Err(error) => {
                    failed.extend(shards.iter().copied());
                    why.get_or_insert(error);
                }
            }
        }
        match why {
            Some(error) if told.is_empty() => return Err(error),
            Some(error) => self.resting.lock().fail(&failed, self.clock.monotonic() + REST, &error),
            None => {}
        }
        self.resting.lock().answer(&well);
        Ok(told)
    }
}

impl BackingOff {
    /// Lets shards rest. Logs a failure only for shards that have not failed before, because all
    /// are tried again and again.
    fn fail(&mut self, shards: &[ShardId], until: Duration, error: &QueueError) {
        self.until.extend(shards.iter().map(|shard| (*shard, until)));
        let before = self.told.len();
        self.told.extend(shards);
        if self.told.len() > before {
            let shards = self.told.len();
            tracing::warn!(%error, shards, "part of the queue's cluster fails, the rest goes on");
        }
    }

    fn answer(&mut self, shards: &[&ShardId]) {
        let before = self.told.len();
        self.told.retain(|shard| !shards.contains(&shard));
        if before > 0 && self.told.is_empty() {
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
    fn a_shard_that_fails_beside_others_rests_for_a_while() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let rest = BackOff::new(clock.clone());
        let answers = [(&[ShardId(0), ShardId(2)][..], failed()), (&[ShardId(1)], Ok(7))];
        assert_eq!(rest.unless_all_fail(answers).expect("some answer"), [7]);
        assert_eq!(rest.awake(4), [ShardId(1), ShardId(3)]);
        assert_eq!(rest.resting.lock().told.len(), 2, "both have been told");
        clock.advance(REST);
        assert_eq!(rest.awake(4).len(), 4);
        let answers = [(&[ShardId(0)][..], failed()), (&[ShardId(2)], Ok(7))];
        rest.unless_all_fail(answers).expect("some answer");
        assert_eq!(rest.resting.lock().told, HashSet::from([ShardId(0)]));
        clock.advance(REST);
        rest.unless_all_fail([(&[ShardId(0), ShardId(1)][..], Ok(7))]).expect("all answer");
        assert!(rest.resting.lock().told.is_empty(), "it is told when they fail again");
    }

    #[test]
    fn if_all_fail_no_shard_rests() {
        let rest = BackOff::new(Clock::manual(Timestamp::from_millis(0)));
        let answers = [(&[ShardId(0)][..], failed()), (&[ShardId(1)], failed())];
        rest.unless_all_fail(answers).expect_err("no server answers");
        assert_eq!(rest.awake(2).len(), 2);
        assert!(
            rest.unless_all_fail(Vec::<(_, Result<u8>)>::new())
                .expect("asked for nothing")
                .is_empty()
        );
    }
}
