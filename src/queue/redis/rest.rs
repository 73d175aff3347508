//! Shards that are left alone for a while: their server failed, and others did not. Each look would
//! wait for it otherwise, and the tickets of all shards with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::shard::ShardId;
use crate::queue::Result;
use crate::runtime::Clock;

/// How long a shard is left alone: a cluster takes longer to put another server in the place of one.
const REST: Duration = Duration::from_secs(2);

/// Which shards rest.
pub(super) struct Rest {
    /// Until when, on the monotonic clock.
    until: Mutex<HashMap<ShardId, Duration>>,
    /// Whether some have failed since all have answered.
    is_partial: AtomicBool,
    clock: Clock,
}

impl Rest {
    pub(super) fn new(clock: Clock) -> Self {
        Self { until: Mutex::default(), is_partial: AtomicBool::new(false), clock }
    }

    /// Those of so many shards that do not rest.
    pub(super) fn awake(&self, shards: u16) -> Vec<ShardId> {
        let now = self.clock.monotonic();
        let mut resting = self.resting();
        resting.retain(|_, until| now < *until);
        (0..shards).map(ShardId).filter(|shard| !resting.contains_key(shard)).collect()
    }

    /// What some shards have answered; those that have failed rest. If all have, so has the server.
    pub(super) fn unless_all_fail<'a, T>(
        &self,
        answers: impl IntoIterator<Item = (&'a [ShardId], Result<T>)>,
    ) -> Result<Vec<T>> {
        let (mut told, mut failed, mut why) = (Vec::new(), Vec::new(), None);
        for (shards, answer) in answers {
            match answer {
                Ok(answer) => told.push(answer),
                Err(error) => {
                    failed.extend(shards.iter().copied());
                    why.get_or_insert(error);
                }
            }
        }
        match why {
            Some(error) if told.is_empty() => return Err(error),
            Some(error) => {
                if !self.is_partial.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, shards = failed.len(), "part of the queue's cluster fails, others go on");
                }
                let until = self.clock.monotonic() + REST;
                self.resting().extend(failed.into_iter().map(|shard| (shard, until)));
            }
            None if self.resting().is_empty() && self.is_partial.swap(false, Ordering::Relaxed) => {
                tracing::info!("all of the queue's cluster answers again");
            }
            None => {}
        }
        Ok(told)
    }

    fn resting(&self) -> MutexGuard<'_, HashMap<ShardId, Duration>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;
    use crate::queue::QueueError;

    fn failed() -> Result<u8> {
        Err(QueueError::new("take", "it is down"))
    }

    #[test]
    fn who_fails_beside_others_rests_for_a_while() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let rest = Rest::new(clock.clone());
        let answers = [(&[ShardId(0), ShardId(2)][..], failed()), (&[ShardId(1)], Ok(7))];
        assert_eq!(rest.unless_all_fail(answers).expect("some answer"), [7]);
        assert_eq!(rest.awake(4), [ShardId(1), ShardId(3)]);
        clock.advance(REST);
        assert_eq!(rest.awake(4).len(), 4);
    }

    #[test]
    fn if_all_fail_nobody_rests() {
        let rest = Rest::new(Clock::manual(Timestamp::from_millis(0)));
        let answers = [(&[ShardId(0)][..], failed()), (&[ShardId(1)], failed())];
        rest.unless_all_fail(answers).expect_err("nobody answers");
        assert_eq!(rest.awake(2).len(), 2);
        assert!(
            rest.unless_all_fail(Vec::<(_, Result<u8>)>::new())
                .expect("asked for nothing")
                .is_empty()
        );
    }
}
