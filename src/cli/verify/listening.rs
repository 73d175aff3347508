//! The target of the schedules, if this command listens itself.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use tokio::net::TcpListener;

use crate::cli::CliError;
use crate::runtime::{Clock, Mutex, ServeLimits, Tasks, serve};

/// The requests that have arrived.
#[derive(Clone, Default)]
pub(super) struct RequestListener(Arc<Mutex<Vec<HeardRequest>>>);

/// A request that has arrived, identified by job and attempt.
struct HeardRequest {
    job: String,
    attempt: String,
}

impl RequestListener {
    /// Starts to answer requests at `address` with 200 and to count them.
    pub(super) async fn start(
        address: SocketAddr,
        tasks: &Tasks,
        clock: &Clock,
    ) -> Result<Self, CliError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| {
            CliError::failed(format!("cannot listen at {address} (--listen): {error}"))
        })?;
        let listening = Self::default();
        let counted = listening.clone();
        let router = Router::new().fallback(async move |headers: HeaderMap| {
            counted.count(&headers);
            "ok\n"
        });
        serve(tasks, clock, listener, router, ServeLimits::default());
        Ok(listening)
    }

    fn count(&self, headers: &HeaderMap) {
        let text = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let heard =
            HeardRequest { job: text("idempotency-key"), attempt: text("punctual-attempt") };
        self.0.lock().push(heard);
    }

    /// Returns the number of requests of a job, and whether one of them arrived twice.
    pub(super) fn of(&self, job: &str) -> (u32, bool) {
        let heard = self.0.lock();
        let its = heard.iter().filter(|heard| heard.job == job);
        let mut attempts: Vec<&str> = its.map(|heard| heard.attempt.as_str()).collect();
        attempts.sort_unstable();
        let is_doubled = attempts.windows(2).any(|pair| pair[0] == pair[1]);
        (u32::try_from(attempts.len()).unwrap_or(u32::MAX), is_doubled)
    }
}
