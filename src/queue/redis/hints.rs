//! Hints of other replicas, by publishing and subscribing. They carry only their sender. A lost
//! hint costs latency, because the loops also look by themselves.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{Client, RedisResult};
use tokio::sync::Notify;

use super::RedisSettings;
use super::check::check;
use super::server::{LentConnection, RedisServer, TIMEOUT};
use crate::queue::Result;
use crate::runtime::Tasks;

/// The time without messages after which the subscription's connection is checked.
const QUIET: Duration = Duration::from_secs(5);
const FASTEST_RETRY: Duration = Duration::from_millis(100);
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// Hints of this replica and of others.
pub(super) struct RedisHints {
    /// The id of this replica, so that its own messages do not wake it a second time.
    sender: String,
    pub(super) due: Arc<Notify>,
    pub(super) tickets: Arc<Notify>,
}

impl RedisHints {
    pub(super) fn new(sender: u64) -> Self {
        Self { sender: format!("{sender:016x}"), due: Arc::default(), tickets: Arc::default() }
    }

    /// Notifies the leaders that schedules have changed.
    pub(super) async fn send_due(&self, lent: &LentConnection<'_>) -> Result<()> {
        self.due.notify_one();
        self.publish(lent, lent.server.keys.due_channel()).await
    }

    /// Notifies the executors that there are new tickets.
    pub(super) async fn send_tickets(&self, lent: &LentConnection<'_>) -> Result<()> {
        self.tickets.notify_one();
        self.publish(lent, lent.server.keys.ticket_channel()).await
    }

    async fn publish(&self, lent: &LentConnection<'_>, to: String) -> Result<()> {
        lent.query(redis::cmd("PUBLISH").arg(to).arg(&self.sender)).await
    }

    /// Passes on the hints of other replicas until the first stage of a stop. Whenever it has
    /// connected, it also checks the server's setup and logs the faults.
    pub(super) async fn listen(
        self: Arc<Self>,
        settings: RedisSettings,
        server: Arc<RedisServer>,
        tasks: Tasks,
    ) {
        let listening = async {
            let mut retry = FASTEST_RETRY;
            for node in settings.nodes.iter().cycle() {
                let passed_on = async {
                    let client = Client::open(node.clone())?;
                    let line = bounded(client.get_async_pubsub()).await?;
                    check(&server).await;
                    retry = FASTEST_RETRY;
                    self.pass_on(line, &server).await
                };
                if let Err(error) = passed_on.await {
                    tracing::debug!(%error, "no hints from other replicas, trying again");
                }
                server.clock.sleep(retry).await;
                retry = (retry * 2).min(SLOWEST_RETRY);
            }
        };
        tasks.stopping().run_until_cancelled(listening).await;
    }

    async fn pass_on(&self, line: PubSub, server: &RedisServer) -> RedisResult<()> {
        let RedisServer { keys, clock, .. } = server;
        let (mut requests, mut messages) = line.split();
        let (due, tickets) = (keys.due_channel(), keys.ticket_channel());
        bounded(requests.subscribe(&[&due, &tickets])).await?;
        // Hints may have been missed before the subscription.
        self.due.notify_one();
        self.tickets.notify_one();
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = clock.sleep(QUIET) => {
                    bounded(requests.ping::<redis::Value>()).await?;
                    continue;
                }
            };
            let Some(message) = message else { return Ok(()) };
            if message.get_payload_bytes() == self.sender.as_bytes() {
                continue;
            }
            if message.get_channel_name() == due {
                self.due.notify_one();
            } else {
                self.tickets.notify_one();
            }
        }
    }
}

async fn bounded<T>(request: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(TIMEOUT, request).await.map_err(std::io::Error::from)?
}
