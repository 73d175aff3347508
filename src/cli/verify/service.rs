//! A client for the part of the service's API that `verify` needs.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use super::tally::TickState;
use crate::cli::CliError;
use crate::domain::{AccountId, Timestamp};
use crate::outbound::{Client, OutboundSettings, Request};
use crate::runtime::{Clock, Tasks};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A placeholder: the client separates accounts, but this command has only one.
const NO_ACCOUNT: AccountId = AccountId::from_bytes([0; 16]);

/// A running service.
pub(super) struct CheckedService {
    base: String,
    headers: HeaderMap,
    client: Client,
}

/// A schedule that was created.
pub(super) struct MadeSchedule {
    pub(super) id: String,
    pub(super) made_at: Timestamp,
    pub(super) first_tick: Timestamp,
}

impl CheckedService {
    pub(super) fn new(
        url: &str,
        key: &str,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Self, CliError> {
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_str(key)
            .map_err(|_| CliError::usage("the key contains characters that no key can contain"))?;
        key.set_sensitive(true);
        headers.insert("x-api-key", key);
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        // The operator chooses the URL, so every address and port is allowed.
        let everything = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("a network"));
        let settings = OutboundSettings {
            allow: everything.into(),
            deny_ports: Vec::new(),
            ..OutboundSettings::default()
        };
        let client = Client::new(settings, clock.clone(), tasks).map_err(CliError::failed)?;
        client.check(url).map_err(|error| CliError::usage(format!("--url {url}: {error}")))?;
        Ok(Self { base: url.trim_end_matches('/').to_owned(), headers, client })
    }

    /// Creates a schedule that calls `target` every minute.
    pub(super) async fn make(&self, number: usize, target: &str) -> Result<MadeSchedule, CliError> {
        let schedule = json!({
            "name": format!("punctual verify {number}"),
            "cronExpression": "* * * * *",
            "timezone": "UTC",
            "endpoint": target,
            "httpMethod": "GET",
            "maxRetries": 1,
            "timeoutSeconds": 10,
        });
        let made = self.call(Method::POST, "/v1/schedules", Some(&schedule)).await?;
        let instant = |name: &str| made[name].as_str().and_then(|text| text.parse().ok());
        match (made["id"].as_str(), instant("createdAt"), instant("nextRunAtUtc")) {
            (Some(id), Some(made_at), Some(first_tick)) => {
                Ok(MadeSchedule { id: id.to_owned(), made_at, first_tick })
            }
            _ => Err(CliError::failed("the response to POST /v1/schedules is not a schedule")),
        }
    }

    /// Looks up the state of a tick.
    pub(super) async fn seen(
        &self,
        made: &MadeSchedule,
        tick: Timestamp,
    ) -> Result<TickState, CliError> {
        let path = format!("/v1/jobs?scheduleId={}&from={tick}&to={tick}&pageSize=5", made.id);
        let page = self.call(Method::GET, &path, None).await?;
        let jobs = page["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(TickState::of(jobs))
    }

    pub(super) async fn remove(&self, made: &MadeSchedule) -> Result<(), CliError> {
        self.call(Method::DELETE, &format!("/v1/schedules/{}", made.id), None).await.map(drop)
    }

    /// Sends a request and returns the `data` of the response.
    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let what = format!("{method} {}{path}", self.base);
        let request = Request {
            method,
            url: format!("{}{path}", self.base),
            headers: self.headers.clone(),
            body: body.map(|body| Bytes::from(body.to_string())),
        };
        let answer = self.client.send(NO_ACCOUNT, request, TIMEOUT).await.result;
        let answer =
            answer.map_err(|failure| CliError::failed(format!("{what}: {}", failure.message)))?;
        let mut told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status < 300 {
            return Ok(told["data"].take());
        }
        let why = told["error"]["message"].as_str().unwrap_or("no reason given");
        let details = &told["error"]["details"];
        let details = if details.is_null() { String::new() } else { format!(" {details}") };
        Err(CliError::failed(format!("{what}: status {}: {why}{details}", answer.status)))
    }
}
