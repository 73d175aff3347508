//! The only clock of the process.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::Mutex;
use super::lapse::Lapse;
use crate::domain::Timestamp;

/// Tells the time and waits for it. Clones share one source.
///
/// The time never moves back. When the machine's clock is set back, this clock continues at half
/// speed until the machine's clock has caught up: no tick runs twice, and none waits for the whole
/// step.
///
/// Replicas that share a store share its time: the caller sets the offset from the monotonic clock
/// ([`sync`](Self::sync)) and how long it is trusted. From then on, the time does not follow the
/// machine's wall clock. A wall clock that moves on while the monotonic clock stands still is the
/// sign of a suspension, after which the offset is not trusted.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

/// A moment of this machine, read from both of its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMoment {
    monotonic: Duration,
    machine_us: i64,
}

/// The maximum by which the wall clock may run ahead of the monotonic clock. More is a suspension of
/// the machine, or a wall clock that was set forward.
const JUMP: Duration = Duration::from_secs(1);

impl ClockMoment {
    /// Returns the time that has passed since `earlier`, by the monotonic and by the wall clock.
    fn passed(self, earlier: Self) -> (Duration, Duration) {
        let by_wall = self.machine_us.saturating_sub(earlier.machine_us);
        let by_wall = Duration::from_micros(u64::try_from(by_wall).unwrap_or(0));
        (self.monotonic.saturating_sub(earlier.monotonic), by_wall)
    }

    fn since(self, earlier: Self) -> Duration {
        let (by_monotonic, by_wall) = self.passed(earlier);
        by_monotonic.max(by_wall)
    }

    /// Returns `true` if the machine was suspended since `earlier`, or its wall clock set forward.
    pub fn has_jumped_since(self, earlier: Self) -> bool {
        let (by_monotonic, by_wall) = self.passed(earlier);
        by_wall > by_monotonic + JUMP
    }
}

enum Source {
    System { origin: Instant, state: Mutex<ClockState>, lapse: Lapse },
    Manual { now: watch::Sender<Duration> },
}

/// The last time that the system clock returned, since the epoch, and the state of a slow-down.
/// `slow_since` is set while the clock runs at half speed: the monotonic time and the clock's time
/// at which the slow-down began.
#[derive(Default)]
struct ClockState {
    last: Duration,
    slow_since: Option<(Duration, Duration)>,
    /// The offset from the monotonic clock to the followed time, in microseconds. Absent: the
    /// machine's wall clock is used.
    behind_us: Option<i64>,
    /// The moment at which the offset was asked for, and how long it is trusted from there. Absent:
    /// the time is always trusted.
    asked: Option<(ClockMoment, Duration)>,
}

impl ClockState {
    /// Returns the current time, given the monotonic clock and the machine's wall clock.
    fn advance(&mut self, monotonic: Duration, wall: Duration) -> Duration {
        let wall = match self.behind_us.map(u64::try_from) {
            Some(behind_us) => monotonic + Duration::from_micros(behind_us.unwrap_or(0)),
            None => wall,
        };
        if wall >= self.last {
            self.slow_since = None;
            self.last = wall;
        } else {
            let (since, from) = *self.slow_since.get_or_insert((monotonic, self.last));
            self.last = self.last.max(from + monotonic.saturating_sub(since) / 2);
        }
        self.last
    }

    /// Follows another clock from now on. The first call discards the time returned so far, because
    /// the machine's clock may have been far ahead.
    fn sync(&mut self, behind_us: i64) {
        if self.behind_us.replace(behind_us).is_none() {
            (self.last, self.slow_since) = (Duration::ZERO, None);
        }
    }

    /// Returns `true` if the offset is young enough at `now`, and the monotonic clock has not stood
    /// still since it was asked for.
    fn is_trusted(&self, now: ClockMoment) -> bool {
        self.asked.is_none_or(|(asked, valid_for)| {
            now.since(asked) < valid_for && !now.has_jumped_since(asked)
        })
    }
}

impl Clock {
    /// Returns the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    pub fn system() -> Self {
        let state = Mutex::default();
        let lapse = Lapse::of_process();
        Self(Arc::new(Source::System { origin: Instant::now(), state, lapse }))
    }

    /// Returns a clock that stands still until `advance` moves it; for tests.
    pub fn manual(start: Timestamp) -> Self {
        let since_epoch = Duration::from_millis(u64::try_from(start.as_millis()).unwrap_or(0));
        Self(Arc::new(Source::Manual { now: watch::Sender::new(since_epoch) }))
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// If the clock is the system's.
    pub fn advance(&self, by: Duration) {
        match &*self.0 {
            Source::Manual { now } => now.send_modify(|now| *now += by),
            Source::System { .. } => panic!("only a manual clock can be moved"),
        }
    }

    /// Returns the current time, rounded down to a millisecond.
    pub fn now(&self) -> Timestamp {
        let ms = self.since_epoch().as_millis();
        Timestamp::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// Returns the time since some fixed moment. Changes of the machine's clock do not affect it.
    /// Only differences have a meaning.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    pub fn monotonic(&self) -> Duration {
        match &*self.0 {
            Source::System { origin, .. } => Instant::now().duration_since(*origin),
            Source::Manual { now } => *now.borrow(),
        }
    }

    /// Returns the machine's wall clock, in microseconds since 1970. It may be wrong, and it may be
    /// set at any time.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    pub fn machine_us(&self) -> i64 {
        let wall = match &*self.0 {
            Source::System { lapse, .. } => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH);
                lapse.machine(wall.unwrap_or_default())
            }
            Source::Manual { now } => *now.borrow(),
        };
        i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns the current moment.
    pub fn moment(&self) -> ClockMoment {
        ClockMoment { monotonic: self.monotonic(), machine_us: self.machine_us() }
    }

    /// Returns the time that has passed since `moment`.
    ///
    /// The monotonic clock stands still while the machine is suspended, and the wall clock may be
    /// set. The larger of the two differences is returned.
    pub fn since(&self, moment: ClockMoment) -> Duration {
        self.moment().since(moment)
    }

    /// Returns the time that this clock will show after `span` of monotonic time, counted from
    /// `from`.
    pub fn after(&self, from: Timestamp, span: Duration) -> Timestamp {
        match &*self.0 {
            Source::System { lapse, .. } => from.plus(lapse.stretched(span)),
            Source::Manual { .. } => from.plus(span),
        }
    }

    /// Sets the time to the monotonic clock plus `behind_us` microseconds, trusted for `valid_for`
    /// from the moment `asked`.
    ///
    /// Only the first call may set the time back. A manual clock ignores the call.
    pub fn sync(&self, behind_us: i64, asked: ClockMoment, valid_for: Duration) {
        if let Source::System { state, .. } = &*self.0 {
            let mut state = state.lock();
            state.sync(behind_us);
            state.asked = Some((asked, valid_for));
        }
    }

    /// Returns `true` if the time can be trusted. If not, nothing may be fired or claimed by it, and
    /// no lease may be renewed.
    pub fn is_trusted(&self) -> bool {
        let Source::System { state, .. } = &*self.0 else { return true };
        let state = state.lock();
        state.is_trusted(self.moment())
    }

    /// Waits for `span`, measured by this clock.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    pub async fn sleep(&self, span: Duration) {
        match &*self.0 {
            Source::System { .. } => tokio::time::sleep(span).await,
            Source::Manual { now } => {
                let mut seen = now.subscribe();
                let until = *seen.borrow_and_update() + span;
                // The sender lives as long as `self`, so the wait cannot fail.
                let _ = seen.wait_for(|now| *now >= until).await;
            }
        }
    }

    /// Waits until `now` is `instant` or later.
    pub async fn sleep_until(&self, instant: Timestamp) {
        loop {
            let until = Duration::from_millis(u64::try_from(instant.as_millis()).unwrap_or(0));
            let left = until.saturating_sub(self.since_epoch());
            if left.is_zero() {
                return;
            }
            let left = match &*self.0 {
                Source::System { lapse, .. } => lapse.real(left),
                Source::Manual { .. } => left,
            };
            // A long wait is split, so that a change of the machine's clock is noticed.
            self.sleep(left.min(Duration::from_secs(5))).await;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    fn since_epoch(&self) -> Duration {
        match &*self.0 {
            Source::System { state, lapse, .. } => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let monotonic = self.monotonic();
                let mut state = state.lock();
                lapse.stretched_time(state.advance(monotonic, lapse.machine(wall)))
            }
            Source::Manual { now } => *now.borrow(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_in_which_the_machine_was_suspended_counts_and_a_calendar_set_back_does_not() {
        let moment = |monotonic, machine_us| ClockMoment { monotonic: s(monotonic), machine_us };
        let earlier = moment(10, 1_000_000_000);
        assert_eq!(moment(13, 1_003_000_000).since(earlier), s(3));
        assert_eq!(moment(13, 1_063_000_000).since(earlier), s(63), "suspended for a minute");
        assert_eq!(moment(13, 940_000_000).since(earlier), s(3), "set back by a minute");
        assert_eq!(earlier.since(moment(13, 1_003_000_000)), s(0));
    }

    #[test]
    fn a_wall_clock_set_back_slows_the_time_and_never_reverses_it() {
        let mut state = ClockState::default();
        assert_eq!(state.advance(s(0), s(1000)), s(1000));
        assert_eq!(state.advance(s(10), s(910)), s(1000), "set back by 100 s");
        assert_eq!(state.advance(s(110), s(1010)), s(1010), "caught up by the wall clock");
        assert_eq!(state.advance(s(111), s(911)), s(1010));
        assert_eq!(state.advance(s(131), s(931)), s(1020), "half speed");
        assert_eq!(state.advance(s(132), s(4000)), s(4000), "set forward");
    }

    #[test]
    fn the_time_of_another_is_followed_without_going_back() {
        let mut state = ClockState { behind_us: Some(1_005_000_000), ..ClockState::default() };
        assert_eq!(state.advance(s(0), s(1000)), s(1005));
        state.behind_us = Some(995_000_000);
        assert_eq!(state.advance(s(4), s(1004)), s(1005), "set back by 10 s");
        assert_eq!(state.advance(s(6), s(1006)), s(1006), "half speed");
        assert_eq!(state.advance(s(14), s(1014)), s(1009), "caught up");
    }

    #[test]
    fn a_follower_clock_does_not_jump_with_the_machine() {
        let mut state = ClockState { behind_us: Some(1_000_000_000), ..ClockState::default() };
        for (monotonic, wall) in [(1, 1001), (2, 4602), (3, 1003), (4, 3)] {
            assert_eq!(state.advance(s(monotonic), s(wall)), s(1_000 + monotonic));
        }
    }

    #[test]
    fn a_machine_that_was_ahead_is_forgotten() {
        let mut state = ClockState::default();
        assert_eq!(state.advance(s(0), s(1300)), s(1300));
        state.sync(1_000_000_000);
        assert_eq!(state.advance(s(1), s(1301)), s(1001));
        state.sync(990_000_000);
        assert_eq!(state.advance(s(2), s(1302)), s(1001), "later it does not go back");
    }

    #[test]
    fn a_reported_time_is_trusted_for_a_while() {
        let clock = Clock::system();
        assert!(clock.is_trusted(), "no clock is followed");
        let now = clock.now().as_millis();
        clock.sync((now + 3_600_000) * 1_000, clock.moment(), s(60));
        assert!(clock.is_trusted());
        let ahead = clock.now().as_millis() - now;
        assert!((3_600_000..3_660_000).contains(&ahead), "{ahead}");
        clock.sync(now * 1_000, clock.moment(), s(0));
        assert!(!clock.is_trusted());
        assert!(clock.now().as_millis() >= now + 3_600_000);
    }

    #[test]
    fn after_a_suspension_the_reported_time_is_not_trusted() {
        let moment = |monotonic, machine_us| ClockMoment { monotonic: s(monotonic), machine_us };
        let asked = moment(10, 1_000_000_000);
        let state = ClockState { asked: Some((asked, s(30))), ..ClockState::default() };
        assert!(state.is_trusted(moment(39, 1_029_000_000)));
        assert!(!state.is_trusted(moment(40, 1_030_000_000)), "too old");
        assert!(!state.is_trusted(moment(11, 1_060_000_000)), "suspended for a minute");
        assert!(!state.is_trusted(moment(11, 1_005_000_000)), "suspended for four seconds");
        assert!(state.is_trusted(moment(11, 1_001_900_000)), "the wall clock was corrected");
        assert!(state.is_trusted(moment(11, 940_000_000)), "set back by a minute");
    }

    #[test]
    fn a_suspended_machine_is_noticed() {
        let moment = |monotonic, machine_us| ClockMoment { monotonic: s(monotonic), machine_us };
        let earlier = moment(10, 1_000_000_000);
        assert!(!moment(11, 1_001_000_000).has_jumped_since(earlier));
        assert!(
            !moment(70, 1_060_000_000).has_jumped_since(earlier),
            "the process was only stopped"
        );
        assert!(moment(11, 1_060_000_000).has_jumped_since(earlier));
        assert!(!moment(11, 940_000_000).has_jumped_since(earlier), "set back");
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_moved() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let wait = clock.sleep_until(Timestamp::from_millis(61_000));
        tokio::pin!(wait);
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        clock.advance(s(59));
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        clock.advance(s(1));
        wait.await;
        assert_eq!(clock.now(), Timestamp::from_millis(61_000));
    }
}
