//! The queue in which leaders wait for slots: one leader gets a batch of slots, then the next one.
//!
//! A job that finds no slot at once costs an insert, a ticket and a claim instead of the insert
//! alone. With everything embedded and 20,000 schedules due at once, four rounds without this wait
//! made 8,100 to 9,100 jobs a second, with it 12,200 to 15,600 (`cargo bench --bench throughput`,
//! 2026-11-25).

use std::time::Duration;

use super::slots::Slots;
use crate::runtime::{Clock, Mutex};

/// The maximum number of slots that a leader waits for: enough for batches to stay batches.
const WORTH_WAITING: usize = 200;
/// The time between two looks for free slots.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// After this time a leader goes on waiting only if slots are freed fast enough to bring it a batch
/// within such a time. It is not shorter, because attempts that have just begun free no slots.
const PROGRESS_WINDOW: Duration = Duration::from_millis(500);
/// The time for which no leader waits for slots after they did not come in time.
const NO_WAIT_FOR: Duration = Duration::from_secs(5);
/// Fewer jobs than this do not wait: each starts by its ticket with the next free slot.
const MIN_JOBS_TO_WAIT: usize = 20;

/// The leaders of one replica that wait for slots of its executor.
#[derive(Default)]
pub(in crate::executor) struct SlotQueue {
    order: tokio::sync::Mutex<()>,
    /// The end of the time in which no leader waits, on the monotonic clock.
    resigned: Mutex<Duration>,
}

/// The turn of the first leader in the queue.
pub(in crate::executor) type QueueTurn<'a> = tokio::sync::MutexGuard<'a, ()>;

/// The error of a leader that other leaders are ahead of.
pub(in crate::executor) struct QueueBusy;

impl SlotQueue {
    /// Returns `true` if no leader waits.
    pub(in crate::executor) fn is_empty(&self) -> bool {
        self.order.try_lock().is_ok()
    }

    /// Returns `true` if waiting for slots for `wanted` jobs is worth it.
    pub(in crate::executor) fn is_worth(&self, clock: &Clock, wanted: usize) -> bool {
        wanted >= MIN_JOBS_TO_WAIT && clock.monotonic() >= *self.resigned.lock()
    }

    /// Waits for the turn of this leader, and then until there are slots for `wanted` jobs or for a
    /// batch of them; for at most `timeout`. `Err` if other leaders had the turn all that time.
    pub(in crate::executor) async fn wait(
        &self,
        slots: &Slots,
        clock: &Clock,
        wanted: usize,
        timeout: Duration,
    ) -> Result<QueueTurn<'_>, QueueBusy> {
        let until = clock.monotonic() + timeout;
        let turn = tokio::select! {
            biased;
            turn = self.order.lock() => turn,
            () = clock.sleep(timeout) => return Err(QueueBusy),
        };
        let enough = wanted.min(WORTH_WAITING).min(slots.most());
        let (began, freed, lacking) =
            (clock.monotonic(), slots.freed(), slots.lacking(enough) as f64);
        if began < *self.resigned.lock() {
            return Ok(turn);
        }
        let mut is_any_free = false;
        loop {
            let free = slots.free();
            is_any_free |= free > 0;
            if free >= enough {
                break;
            }
            clock.sleep(LOOK_AGAIN).await;
            let now = clock.monotonic();
            let waited = now.saturating_sub(began);
            let pace = (slots.freed() - freed) as f64 / waited.as_secs_f64();
            // The freed slots may all go to tickets that wait.
            let is_hopeless = !is_any_free || pace * PROGRESS_WINDOW.as_secs_f64() < lacking;
            if waited >= PROGRESS_WINDOW && is_hopeless {
                *self.resigned.lock() = now + NO_WAIT_FOR;
                break;
            }
            if now >= until {
                break;
            }
        }
        Ok(turn)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use tokio::task::yield_now;

    use super::*;
    use crate::domain::shard::ShardId;
    use crate::domain::ticket::{HostKey, Ticket};
    use crate::domain::{AccountId, JobId, Timestamp};
    use crate::executor::capacity::slots::Slot;
    use crate::executor::settings::ExecutorSettings;

    const TIMEOUT: Duration = Duration::from_secs(1);

    /// A line, slots that are all in use, and a clock.
    struct World {
        line: SlotQueue,
        slots: Arc<Slots>,
        used: VecDeque<Slot>,
        clock: Clock,
    }

    fn world(total: usize) -> World {
        let cap = total;
        let settings = ExecutorSettings {
            slots: total,
            per_account: cap,
            per_host: cap,
            ..ExecutorSettings::default()
        };
        let slots = Arc::new(Slots::new(&settings, Arc::default()));
        let at = Timestamp::from_millis(1_900_000_000_000);
        let ticket = |job| Ticket {
            job: JobId::new(at, job),
            shard: ShardId(0),
            account: AccountId::new(at, 1),
            host: HostKey(1),
            start: at,
        };
        let used = (0..total).map(|n| slots.take(&ticket(n as u128), Duration::ZERO)).collect();
        World { line: SlotQueue::default(), slots, used, clock: Clock::manual(at) }
    }

    impl World {
        /// Waits for `wanted` slots while `freed` slots are freed every ten milliseconds. Returns
        /// `true` if it got the turn, the number of slots that are free then, and the time
        /// that it took.
        async fn wait(&mut self, wanted: usize, freed: usize) -> (bool, usize, Duration) {
            let Self { line, slots, used, clock } = self;
            let began = clock.monotonic();
            let wait = line.wait(slots, clock, wanted, TIMEOUT);
            tokio::pin!(wait);
            loop {
                tokio::select! {
                    biased;
                    turn = &mut wait => {
                        return (turn.is_ok(), slots.free(), clock.monotonic() - began);
                    }
                    () = yield_now() => {}
                }
                used.drain(..freed.min(used.len()));
                clock.advance(LOOK_AGAIN);
            }
        }
    }

    #[tokio::test]
    async fn a_batch_of_slots_is_waited_for() {
        let mut world = world(1_024);
        // The queue's eighth comes first: (128 + 200) / 10.
        let (first, free, took) = world.wait(900, 10).await;
        assert!(first && free >= WORTH_WAITING, "{free}");
        assert_eq!(took, LOOK_AGAIN * 33);
        assert!(world.line.is_worth(&world.clock, 900), "and so it goes on");
    }

    #[tokio::test]
    async fn slots_that_do_not_come_are_not_waited_for_again_so_soon() {
        let mut world = world(1_024);
        let (first, free, took) = world.wait(900, 1).await;
        assert_eq!((first, free, took), (true, 0, PROGRESS_WINDOW));
        assert!(!world.line.is_worth(&world.clock, 900));
        let (first, _, took) = world.wait(900, 1).await;
        assert_eq!((first, took), (true, Duration::ZERO), "the next caller does not wait either");
        world.clock.advance(NO_WAIT_FOR);
        assert!(world.line.is_worth(&world.clock, 900));
    }

    #[tokio::test]
    async fn slots_that_go_to_waiting_tickets_are_not_waited_for() {
        let mut world = world(1_024);
        world.slots.set_queued(true);
        let (first, free, took) = world.wait(900, 10).await;
        assert_eq!((first, free, took), (true, 0, PROGRESS_WINDOW));
        assert!(!world.line.is_worth(&world.clock, 900));
    }

    #[test]
    fn few_jobs_do_not_wait() {
        let world = world(8);
        assert!(!world.line.is_worth(&world.clock, MIN_JOBS_TO_WAIT - 1));
        assert!(world.line.is_worth(&world.clock, MIN_JOBS_TO_WAIT));
    }

    #[tokio::test]
    async fn no_caller_waits_for_its_turn_longer_than_its_timeout() {
        let world = world(8);
        let first = world.line.order.try_lock().expect("no task has it");
        assert!(!world.line.is_empty());
        let wait = world.line.wait(&world.slots, &world.clock, 1, TIMEOUT);
        let time = async {
            yield_now().await;
            world.clock.advance(TIMEOUT);
        };
        let (turn, ()) = tokio::join!(wait, time);
        assert!(turn.is_err());
        drop((first, turn));
        assert!(world.line.is_empty());
    }
}
