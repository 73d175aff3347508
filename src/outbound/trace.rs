//! What becomes of an attempt inside the HTTP library.
//!
//! The library resolves, connects and shakes hands in the task that asked for the response, so a
//! value of that task is where those parts can note what they do. A connection that the library
//! goes on to open in the background, because another one became free, is noted nowhere.

use std::cell::Cell;
use std::time::Duration;

use crate::domain::outcome::Timings;

tokio::task_local! {
    /// The trace of the attempt that this task makes.
    pub static TRACE: Trace;
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Lookup,
    Connect,
    Handshake,
    Response,
    Body,
}

impl Phase {
    /// The phase in words, to be read after "while".
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

/// How far an attempt has come, and where its time went. Instants are on the monotonic clock.
pub struct Trace {
    /// The limit of the whole attempt.
    pub timeout: Duration,
    /// When it is over.
    pub deadline: Duration,
    phase: Cell<Phase>,
    /// Since when it waits for the response.
    sent: Cell<Duration>,
    timings: Cell<Timings>,
}

impl Trace {
    /// An attempt that begins at `started`. Until it turns out that a connection is to be opened,
    /// it waits for the response.
    pub fn new(started: Duration, timeout: Duration) -> Self {
        Self {
            timeout,
            deadline: started.saturating_add(timeout),
            phase: Cell::new(Phase::Response),
            sent: Cell::new(started),
            timings: Cell::default(),
        }
    }

    /// What it waits for.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Where its time went so far.
    pub fn timings(&self) -> Timings {
        self.timings.get()
    }

    /// The attempt goes on to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// The name servers were asked for `spent`.
    pub fn looked_up(&self, spent: Duration) {
        self.time(|timings| timings.dns_ms = Some(millis(spent)));
    }

    /// Connecting has ended at `now`, after `spent`, the lookup included. If it did not come
    /// further than that, there was no connecting.
    pub fn connected(&self, now: Duration, spent: Duration) {
        if self.phase() != Phase::Lookup {
            let lookup = Duration::from_millis(self.timings().dns_ms.unwrap_or(0).into());
            let spent = spent.saturating_sub(lookup);
            self.time(|timings| timings.connect_ms = Some(millis(spent)));
        }
        self.sent.set(now);
    }

    /// The head of the response has come. If that was over a connection which had become free,
    /// what was begun to open another does not count.
    pub fn answered(&self, now: Duration) {
        self.enter(Phase::Body);
        let waited = now.saturating_sub(self.sent.get());
        self.time(|timings| {
            timings.first_byte_ms = Some(millis(waited));
            timings.dns_ms = timings.dns_ms.filter(|_| timings.connect_ms.is_some());
        });
    }

    /// The body was read for `spent`.
    pub fn read(&self, spent: Duration) {
        self.time(|timings| timings.body_ms = Some(millis(spent)));
    }

    fn time(&self, change: impl FnOnce(&mut Timings)) {
        let mut timings = self.timings.get();
        change(&mut timings);
        self.timings.set(timings);
    }
}

/// A span in the unit of [`Timings`].
pub fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

/// Notes something in the trace of this task's attempt, if it makes one.
pub fn note<T>(note: impl FnOnce(&Trace) -> T) -> Option<T> {
    TRACE.try_with(note).ok()
}
