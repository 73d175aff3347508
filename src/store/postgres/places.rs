//! How many connections are in use at once: as few as will do.
//!
//! A connection is dear: a process of the server, a handshake, and a plan for each statement. When
//! calls come faster than the first connections are made, a pool makes one for each of them, and all
//! wait for far longer than they would have waited for each other. So there are two places at first,
//! and more only one after the other, while somebody waits and no connection is being made. A place
//! that no connection comes for goes again, and so do those of connections that are not there any
//! more.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::runtime::Clock;

/// The places at first: a short call need not wait for a long one.
const FIRST: usize = 2;
/// How long somebody has waited when one is added, and how long after the one before: longer than
/// most calls take.
const PATIENCE: Duration = Duration::from_millis(10);

/// Places for users of connections.
pub(super) struct Places {
    free: Semaphore,
    /// How many there are.
    count: AtomicUsize,
    /// When it was last tried to add one, on the monotonic clock. Held by the first of those who wait.
    tried: Mutex<Duration>,
    /// How many have a place and no connection yet.
    connecting: AtomicUsize,
    most: usize,
    clock: Clock,
}

impl Places {
    pub(super) fn new(most: u32, clock: Clock) -> Self {
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

    /// Takes a place and makes use of it to connect. `open` is how many connections there are.
    pub(super) async fn connect<T, E>(
        &self,
        open: usize,
        connect: impl Future<Output = Result<T, E>>,
    ) -> Result<(SemaphorePermit<'_>, T), E> {
        self.begin_anew(open);
        let connecting = Connecting::new(self, self.take().await);
        let connected = connect.await?;
        Ok((connecting.done(), connected))
    }

    /// Waits for a place; it is free again when it is dropped.
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

    /// Takes back places of connections that are not there any more, if nobody is in one.
    fn begin_anew(&self, open: usize) {
        let (count, wanted) = (self.count.load(Ordering::Relaxed), open.max(FIRST));
        if wanted < count && self.free.available_permits() == count {
            let gone = self.free.forget_permits(count - wanted);
            self.count.fetch_sub(gone, Ordering::Relaxed);
        }
    }
}

/// A place without a connection. If none comes, it goes, unless it is one of the first.
struct Connecting<'a> {
    places: &'a Places,
    place: Option<SemaphorePermit<'a>>,
}

impl<'a> Connecting<'a> {
    fn new(places: &'a Places, place: SemaphorePermit<'a>) -> Self {
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

    fn places(most: u32) -> (Places, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (Places::new(most, clock.clone()), clock)
    }

    /// A connection that is there at once.
    async fn connect(places: &Places, open: usize) -> SemaphorePermit<'_> {
        places.connect(open, ready(Ok::<_, ()>(()))).await.expect("connected").0
    }

    fn made(places: &Places) -> usize {
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
            // One is freed more often than somebody's patience ends.
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
