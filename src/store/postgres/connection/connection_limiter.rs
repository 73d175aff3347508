//! Uses no more connections at once than needed.
//!
//! Danger: a connection is expensive: a process of the server, a handshake, and a plan for each
//! statement. If calls come faster than the first connections open, a pool opens one for each call,
//! and all calls wait far longer than they would have waited for each other.
//!
//! Rule: a call needs a place, which is a permit to use a connection. There are two places at
//! first. Further ones are added one at a time, while a call waits and no connection is being
//! opened. A place is removed again if no connection opens for it, or if its connection was closed.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::runtime::Clock;

/// The number of places at first. There are two, so that a short call need not wait for a long one.
const FIRST: usize = 2;
/// A place is added when a call has waited for this long, and this long after the place before. It
/// is longer than most calls take.
const PATIENCE: Duration = Duration::from_millis(10);

/// The permits to use connections.
pub(in super::super) struct ConnectionLimiter {
    free: Semaphore,
    /// The number of places.
    count: AtomicUsize,
    /// The time of the last try to add a place, on the monotonic clock. The first of the waiting
    /// calls holds the lock.
    tried: Mutex<Duration>,
    /// The number of places whose connection is still being opened.
    connecting: AtomicUsize,
    most: usize,
    clock: Clock,
}

impl ConnectionLimiter {
    pub(in super::super) fn new(most: u32, clock: Clock) -> Self {
        let most = most as usize;
        let first = most.min(FIRST);
        Self {
            free: Semaphore::new(first),
            count: AtomicUsize::new(first),
            tried: Mutex::default(),
            connecting: AtomicUsize::new(0),
            most,
            clock,
        }
    }

    /// Takes a place and runs `connect` with it. `open` is the number of open connections.
    pub(in super::super) async fn connect<T, E>(
        &self,
        open: usize,
        connect: impl Future<Output = Result<T, E>>,
    ) -> Result<(SemaphorePermit<'_>, T), E> {
        self.begin_anew(open);
        let connecting = Connecting::new(self, self.take().await);
        let connected = connect.await?;
        Ok((connecting.done(), connected))
    }

    /// Waits for a place, which is free again when the permit is dropped.
    async fn take(&self) -> SemaphorePermit<'_> {
        let began = self.clock.monotonic();
        let mut place = pin!(self.free.acquire());
        let mut tried = tokio::select! {
            biased;
            place = &mut place => return place.expect("never closed"),
            tried = self.tried.lock() => tried,
        };
        loop {
            let at = began.max(*tried) + PATIENCE;
            let wait = at.saturating_sub(self.clock.monotonic());
            tokio::select! {
                biased;
                place = &mut place => return place.expect("never closed"),
                () = self.clock.sleep(wait) => {}
            }
            *tried = self.clock.monotonic();
            let is_full = self.count.load(Ordering::Relaxed) >= self.most;
            if !is_full && self.connecting.load(Ordering::Relaxed) == 0 {
                self.count.fetch_add(1, Ordering::Relaxed);
                self.free.add_permits(1);
            }
        }
    }

    /// Removes the places of connections that were closed, if no place is in use.
    fn begin_anew(&self, open: usize) {
        let (count, wanted) = (self.count.load(Ordering::Relaxed), open.max(FIRST));
        if wanted < count && self.free.available_permits() == count {
            let gone = self.free.forget_permits(count - wanted);
            self.count.fetch_sub(gone, Ordering::Relaxed);
        }
    }
}

/// A place whose connection is being opened. If that fails, the place is removed, unless it is one
/// of the first.
struct Connecting<'a> {
    places: &'a ConnectionLimiter,
    place: Option<SemaphorePermit<'a>>,
}

impl<'a> Connecting<'a> {
    fn new(places: &'a ConnectionLimiter, place: SemaphorePermit<'a>) -> Self {
        places.connecting.fetch_add(1, Ordering::Relaxed);
        Self { places, place: Some(place) }
    }

    fn done(mut self) -> SemaphorePermit<'a> {
        self.place.take().expect("it is there until it is dropped")
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.places.connecting.fetch_sub(1, Ordering::Relaxed);
        let Some(place) = self.place.take() else { return };
        let fewer = |count: usize| (count > FIRST).then(|| count - 1);
        let count = &self.places.count;
        if count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            place.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;
    use crate::domain::Timestamp;

    fn places(most: u32) -> (ConnectionLimiter, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (ConnectionLimiter::new(most, clock.clone()), clock)
    }

    /// Takes a place for a connection that opens at once.
    async fn connect(places: &ConnectionLimiter, open: usize) -> SemaphorePermit<'_> {
        places.connect(open, ready(Ok::<_, ()>(()))).await.expect("connected").0
    }

    fn made(places: &ConnectionLimiter) -> usize {
        places.count.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn one_is_added_when_somebody_has_waited() {
        let (places, clock) = places(4);
        let _first = [places.take().await, places.take().await];
        let mut third = pin!(places.take());
        assert!((&mut third).now_or_never().is_none());
        clock.advance(PATIENCE / 2);
        assert!((&mut third).now_or_never().is_none(), "not for so long");
        clock.advance(PATIENCE / 2);
        let third = third.await;
        assert_eq!(made(&places), 3);
        drop(third);
        assert!(places.take().now_or_never().is_some(), "it stays");
    }

    #[tokio::test]
    async fn they_grow_while_many_wait_though_some_are_freed() {
        let (places, clock) = places(16);
        let mut used: Vec<_> = [places.take().await, places.take().await].into();
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(places.take())).collect();
        for _ in 0..10 {
            waiting.retain_mut(|place| match place.now_or_never() {
                Some(place) => {
                    used.push(place);
                    false
                }
                None => true,
            });
            // A place becomes free more often than the wait of a call ends.
            drop(used.remove(0));
            clock.advance(PATIENCE / 2);
        }
        assert!(places.tried.try_lock().is_err(), "somebody waits");
        drop(waiting);
        assert!((5..=7).contains(&made(&places)), "{}", made(&places));
    }

    #[tokio::test]
    async fn none_is_added_while_a_connection_is_being_made() {
        let (places, clock) = places(4);
        let _used = connect(&places, 0).await;
        let mut connecting = Box::pin(places.connect(1, pending::<Result<(), ()>>()));
        assert!((&mut connecting).now_or_never().is_none());
        let mut third = Box::pin(places.take());
        for _ in 0..5 {
            assert!((&mut third).now_or_never().is_none());
            clock.advance(PATIENCE);
        }
        drop(connecting);
        assert!(third.now_or_never().is_some(), "the one that gave up has left its place");
        assert_eq!(made(&places), 2);
    }

    #[tokio::test]
    async fn there_are_never_more_than_the_most() {
        let (places, clock) = places(3);
        let mut all = vec![places.take().await, places.take().await];
        for left in [1, 0] {
            let mut next = Box::pin(places.take());
            assert!((&mut next).now_or_never().is_none());
            clock.advance(PATIENCE);
            all.extend(next.now_or_never());
            assert_eq!(all.len(), 3, "{left}");
        }
        assert_eq!(made(&places), 3);
        let (one, _) = self::places(1);
        assert!(one.take().now_or_never().is_some(), "even one will do");
    }

    #[tokio::test]
    async fn they_begin_anew_when_the_connections_are_gone() {
        let (places, clock) = places(4);
        let mut all = vec![places.take().await, places.take().await];
        let mut third = Box::pin(places.take());
        assert!((&mut third).now_or_never().is_none());
        clock.advance(PATIENCE);
        all.push(third.await);
        assert!(connect(&places, 0).now_or_never().is_none(), "there is no other");
        assert_eq!(made(&places), 3, "they are in use");
        all.clear();
        drop(connect(&places, 3).await);
        assert_eq!(made(&places), 3, "the connections are there");
        drop(connect(&places, 0).await);
        assert_eq!((made(&places), places.free.available_permits()), (2, 2));
    }

    #[tokio::test]
    async fn a_place_without_a_connection_goes() {
        let (places, clock) = places(4);
        for _ in 0..2 {
            let all = [places.take().await, places.take().await];
            let mut third = Box::pin(places.connect(2, pending::<Result<(), ()>>()));
            assert!((&mut third).now_or_never().is_none());
            clock.advance(PATIENCE);
            assert!((&mut third).now_or_never().is_none());
            assert_eq!(made(&places), 3);
            drop(third);
            assert_eq!(made(&places), 2, "who gave up");
            drop(all);
            assert_eq!(places.free.available_permits(), 2);
        }
        let failed = places.connect(0, ready(Err::<(), _>(()))).await;
        assert!(failed.is_err());
        assert_eq!((made(&places), places.free.available_permits()), (2, 2), "the first ones stay");
    }
}
