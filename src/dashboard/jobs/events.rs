//! The stream of events by which the page of an unfinished job shows changes.
//!
//! An event carries the changed part of the page; without a change, no event is sent. Before each
//! event, and otherwise every 5 seconds, the session and the membership are checked, as for a page.
//! No check extends the session: only a person does that. A stream ends with the session or the
//! membership, when the job is final or gone, when the process stops, and after 10 minutes. The
//! browser then connects again, or asks for the page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::page::{JobFragment, fragment};
use crate::dashboard::form::FormFields;
use crate::dashboard::visitor::{PollingVisitor, Visitor};
use crate::dashboard::{Dashboard, PageError, id_of};
use crate::domain::AccountId;
use crate::domain::user::Role;
use crate::runtime::Clock;
use crate::schedules::{JobWatch, WatchedJob};

/// The interval at which a stream without events sends a comment, so that proxies and clients keep
/// it open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The maximum time between two checks of the session and the membership.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum duration of a stream.
const MAX_STREAM: Duration = Duration::from_secs(600);
/// The time after which a browser connects again.
const RECONNECT: Duration = Duration::from_secs(2);

/// Opens a stream. Above the maximum number of streams the answer is 503.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    PollingVisitor(visitor): PollingVisitor,
    Path(id): Path<String>,
    parts: Parts,
    fields: FormFields,
) -> Result<Response, PageError> {
    let account = visitor.account();
    let shown = Arc::new(dashboard.schedules.shown_job(account, id_of(&id)?).await?);
    let again = parts.headers.get("last-event-id").and_then(|seen| seen.to_str().ok());
    let seen = again.unwrap_or_else(|| fields.text("seen")).to_owned();
    if dashboard.tasks.stopping().is_cancelled() {
        return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
    }
    let Some(watch) = dashboard.watches.watch(account, &shown) else {
        return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
    };
    let times = StreamTimes::from(dashboard.clock.monotonic());
    let mut events = JobEvents {
        dashboard,
        parts,
        account,
        watch,
        shown: None,
        seen,
        first: None,
        is_ended: false,
        times,
    };
    // The job may have changed since the page was made.
    let first = events.change(&visitor, shown).unwrap_or_default();
    events.first = Some(first.retry(RECONNECT));
    let mut response = Sse::new(unfold(events, JobEvents::next)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Some proxies would otherwise buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The state of a stream.
struct JobEvents {
    dashboard: Dashboard,
    /// The request that opened the stream. Its session is checked at each read.
    parts: Parts,
    account: AccountId,
    watch: JobWatch,
    /// The job and the role of the last comparison.
    shown: Option<(Arc<WatchedJob>, Role)>,
    /// The version of the part that the page has.
    seen: String,
    first: Option<Event>,
    is_ended: bool,
    times: StreamTimes,
}

/// The times, on the monotonic clock, at which a stream does something although nothing has
/// changed.
struct StreamTimes {
    ends_at: Duration,
    heartbeat_at: Duration,
    /// The time at which the session and the membership are checked.
    check_at: Duration,
}

/// An event of the clock in a stream.
#[derive(Debug, PartialEq, Eq)]
enum StreamDue {
    /// The stream has lasted as long as it may.
    End,
    /// A comment keeps the connection open.
    Heartbeat,
}

impl StreamTimes {
    /// Returns the times of a stream that begins at `now`.
    fn from(now: Duration) -> Self {
        Self {
            ends_at: now + MAX_STREAM,
            heartbeat_at: now + HEARTBEAT,
            check_at: now + CHECK_INTERVAL,
        }
    }

    /// Waits for the end of the stream or the next heartbeat.
    async fn due(&self, clock: &Clock) -> StreamDue {
        let left = |until: Duration| until.saturating_sub(clock.monotonic());
        tokio::select! {
            biased;
            () = clock.sleep(left(self.ends_at)) => StreamDue::End,
            () = clock.sleep(left(self.heartbeat_at)) => StreamDue::Heartbeat,
        }
    }
}

type NextEvent = Option<(Result<Event, Infallible>, JobEvents)>;

impl JobEvents {
    async fn next(mut self) -> NextEvent {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        while !self.is_ended {
            let (clock, stopping) = (&self.dashboard.clock, self.dashboard.tasks.stopping());
            let read = tokio::select! {
                biased;
                () = stopping.cancelled() => return None,
                due = self.times.due(clock) => {
                    if due == StreamDue::End {
                        return None;
                    }
                    self.times.heartbeat_at = clock.monotonic() + HEARTBEAT;
                    return Some((Ok(Event::default().comment("")), self));
                }
                read = self.watch.next() => read?,
            };
            if self.is_shown(&read) && self.dashboard.clock.monotonic() < self.times.check_at {
                continue;
            }
            let visitor = self.admitted().await?;
            self.times.check_at = self.dashboard.clock.monotonic() + CHECK_INTERVAL;
            if let Some(event) = self.change(&visitor, read) {
                self.times.heartbeat_at = self.dashboard.clock.monotonic() + HEARTBEAT;
                return Some((Ok(event), self));
            }
        }
        None
    }

    /// Returns `true` if the page has the content of this read.
    fn is_shown(&self, read: &Arc<WatchedJob>) -> bool {
        self.shown.as_ref().is_some_and(|(shown, _)| Arc::ptr_eq(shown, read))
    }

    /// Returns the visitor as a page would see it now; `None` if the user may not see the job any
    /// more, or if that cannot be checked.
    async fn admitted(&mut self) -> Option<Visitor> {
        let watcher = PollingVisitor::from_request_parts(&mut self.parts, &self.dashboard).await;
        let PollingVisitor(visitor) = watcher.ok()?;
        (visitor.account() == self.account).then_some(visitor)
    }

    /// Returns the event for the page; `None` if the content of the page is the same.
    fn change(&mut self, visitor: &Visitor, shown: Arc<WatchedJob>) -> Option<Event> {
        if shown.job.status.is_final() {
            self.is_ended = true;
            return Some(Event::default().event("final").data("final"));
        }
        let role = visitor.membership.role;
        let has_role = self.shown.as_ref().is_some_and(|(_, its_role)| *its_role == role);
        if has_role && self.is_shown(&shown) {
            return None;
        }
        let JobFragment { version, html } = fragment(&self.dashboard, visitor, &shown);
        self.shown = Some((shown, role));
        if version == self.seen {
            return None;
        }
        // Each CR and each LF begins a new line of data, so CR LF would add an empty line. HTML
        // treats both forms alike.
        let html = html.into_string().replace("\r\n", "\n");
        let event = Event::default().event("job").id(&version).data(html);
        self.seen = version;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::Timestamp;

    #[tokio::test]
    async fn a_stream_ends_after_ten_minutes_with_comments_until_then() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let mut times = StreamTimes::from(clock.monotonic());
        for _ in 1..40 {
            assert_eq!(times.due(&clock).now_or_never(), None);
            clock.advance(HEARTBEAT);
            assert_eq!(times.due(&clock).now_or_never(), Some(StreamDue::Heartbeat));
            times.heartbeat_at += HEARTBEAT;
        }
        clock.advance(HEARTBEAT.checked_sub(Duration::from_millis(1)).expect("longer"));
        assert_eq!(times.due(&clock).now_or_never(), None, "9 minutes and 59.999 seconds");
        clock.advance(Duration::from_millis(1));
        assert_eq!(times.due(&clock).now_or_never(), Some(StreamDue::End), "10 minutes");
    }
}
