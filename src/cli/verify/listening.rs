//! The target that schedules call, where it is this command.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::HeaderMap;
use tokio::net::TcpListener;

use crate::cli::CliError;
use crate::runtime::{Clock, ServeLimits, Tasks, serve};

/// How often each job's attempt has come.
#[derive(Clone, Default)]
pub(super) struct Listening(Arc<Mutex<HashMap<(String, String), u32>>>);

impl Listening {
    /// Answers requests at `address` with 200, and counts them.
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
        let request = (text("idempotency-key"), text("punctual-attempt"));
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(request).or_default() += 1;
    }

    /// How many requests of a job have come, and whether one came twice.
    pub(super) fn of(&self, job: &str) -> (u32, bool) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let its = counts.iter().filter(|((its, _), _)| its == job).map(|(_, count)| *count);
        let its: Vec<u32> = its.collect();
        (its.iter().sum(), its.iter().any(|count| *count > 1))
    }
}
