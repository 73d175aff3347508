//! The phase and the timings of an attempt inside the HTTP library.
//!
//! The library runs DNS lookup, connect and TLS handshake in the task that awaits the response. A
//! task-local value therefore lets our resolver, connector and TLS hook record their progress. The
//! library may finish opening a connection in the background after another connection became free;
//! that work is not recorded.

use std::cell::Cell;
use std::time::Duration;

use crate::domain::outcome::Timings;

tokio::task_local! {
    /// The trace of the attempt that runs in this task.
    pub static TRACE: Trace;
}

/// The step that an attempt is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Lookup,
    Connect,
    Handshake,
    Response,
    Body,
}

impl Phase {
    /// Returns the phase as a phrase that follows "while".
    pub fn waiting(self) -> &'static str {
        match self {
            Self::Lookup => "resolving the host name",
            Self::Connect => "connecting",
            Self::Handshake => "waiting for the TLS handshake",
            Self::Response => "waiting for the response",
            Self::Body => "reading the response's body",
        }
    }
}

/// The progress of an attempt and the time spent in each phase. Instants are on the monotonic
/// clock.
pub struct Trace {
    /// The timeout of the whole attempt.
    pub timeout: Duration,
    /// The instant at which the timeout ends.
    pub deadline: Duration,
    /// Returns `true` as long as the request may be written.
    may_send: Box<dyn Fn() -> bool + Send>,
    phase: Cell<Phase>,
    /// The start of the wait for the response.
    sent: Cell<Duration>,
    timings: Cell<Timings>,
}

impl Trace {
    /// Creates the trace of an attempt that begins at `started`. The phase is `Response` until a
    /// new connection has to be opened, which gets the request only if `may_send` returns `true`.
    pub fn new(
        started: Duration,
        timeout: Duration,
        may_send: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        Self {
            timeout,
            deadline: started.saturating_add(timeout),
            may_send: Box::new(may_send),
            phase: Cell::new(Phase::Response),
            sent: Cell::new(started),
            timings: Cell::default(),
        }
    }

    /// Returns `true` if the request may still be written.
    pub fn may_send(&self) -> bool {
        (self.may_send)()
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Returns the timings so far.
    pub fn timings(&self) -> Timings {
        self.timings.get()
    }

    /// Moves the attempt to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// Records the duration of the DNS lookup.
    pub fn looked_up(&self, spent: Duration) {
        self.time(|timings| timings.dns_ms = Some(millis(spent)));
    }

    /// Records that connecting ended at `now`, after `spent` including the lookup. If the attempt
    /// is still in the lookup phase, no connect took place.
    pub fn connected(&self, now: Duration, spent: Duration) {
        if self.phase() != Phase::Lookup {
            let lookup = Duration::from_millis(self.timings().dns_ms.unwrap_or(0).into());
            let spent = spent.saturating_sub(lookup);
            self.time(|timings| timings.connect_ms = Some(millis(spent)));
        }
        self.sent.set(now);
    }

    /// Records that the response head arrived at `now`. If it arrived over a connection that had
    /// become free, the lookup for another connection does not count.
    pub fn answered(&self, now: Duration) {
        self.enter(Phase::Body);
        let waited = now.saturating_sub(self.sent.get());
        self.time(|timings| {
            timings.first_byte_ms = Some(millis(waited));
            timings.dns_ms = timings.dns_ms.filter(|_| timings.connect_ms.is_some());
        });
    }

    /// Records the duration of reading the body.
    pub fn read(&self, spent: Duration) {
        self.time(|timings| timings.body_ms = Some(millis(spent)));
    }

    fn time(&self, change: impl FnOnce(&mut Timings)) {
        let mut timings = self.timings.get();
        change(&mut timings);
        self.timings.set(timings);
    }
}

/// Converts a duration to milliseconds, the unit of [`Timings`].
pub fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

/// Calls `note` with the trace of this task's attempt. Returns `None` outside an attempt.
pub fn note<T>(note: impl FnOnce(&Trace) -> T) -> Option<T> {
    TRACE.try_with(note).ok()
}
