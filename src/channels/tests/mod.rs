//! Tests of configurations, and of sending to fake providers with scripted answers.

mod configurations;
mod deliveries;

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::samples::{account, alert, at};
use super::*;
use crate::domain::ChannelId;
use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::DeliveryError;
use crate::runtime::Tasks;

const TIMEOUT: Duration = Duration::from_secs(10);
const SLACK_URL: &str = "https://hooks.slack.com/services/T0/B0/marker-of-the-webhook";
const DISCORD_URL: &str = "https://discord.com/api/webhooks/123/marker-of-the-webhook";
const TOKEN: &str = "123456:marker-of-the-bot-marker-of-the-bot";
const OLD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Bench {
    channels: Channels,
    clock: Clock,
    listener: TcpListener,
    _tasks: Tasks,
}

impl Bench {
    /// Creates a bench whose channels may call a provider on this machine.
    async fn new() -> Self {
        Self::at(at("2024-05-15T12:00:00Z")).await
    }

    /// Creates the same bench with its clock at `now`.
    async fn at(now: Timestamp) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let tasks = Tasks::new();
        let allow = vec!["127.0.0.0/8".parse().expect("a network")];
        let egress = outbound::OutboundSettings { allow, ..outbound::OutboundSettings::default() };
        let client = outbound::Client::new(egress, Clock::system(), &tasks).expect("a client");
        let settings = ChannelSettings {
            chat_hosts: vec!["127.0.0.1".to_owned()],
            telegram_url: url,
            public_url: Some("https://punctual.example".to_owned()),
        };
        let clock = Clock::manual(now);
        let random = Random::seeded(7);
        let channels = Channels::new(settings, client, None, clock.clone(), random);
        Self { channels, clock, listener, _tasks: tasks }
    }

    fn url(&self, path: &str) -> String {
        let port = self.listener.local_addr().expect("an address").port();
        format!("http://127.0.0.1:{port}{path}")
    }

    fn configure(
        &self,
        kind: ChannelType,
        given: &Value,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        self.change(kind, given, None)
    }

    fn change(
        &self,
        kind: ChannelType,
        given: &Value,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        self.channels.configure(kind, given.as_object().expect("an object"), current)
    }

    fn config(&self, kind: ChannelType, given: &Value) -> ChannelConfig {
        self.configure(kind, given).expect("configured").config
    }

    /// Returns the errors of a configuration as `field: message`.
    fn refused(&self, kind: ChannelType, given: &Value) -> String {
        self.configure(kind, given).expect_err("refused").to_string()
    }

    /// Sends an alert to a provider that gives these answers. Returns the requests.
    async fn send(
        &self,
        kind: ChannelType,
        config: &ChannelConfig,
        answers: &[(u16, &str, &str)],
    ) -> (Result<SentMessage, SendError>, Vec<Received>) {
        let to = destination(kind, config);
        let alert = alert(AlertKind::JobFailed);
        let sending = self.channels.send(&to, &alert, TIMEOUT);
        let serving = async {
            let mut received = Vec::new();
            for (status, headers, body) in answers {
                received.push(self.serve(*status, headers, body).await);
            }
            received
        };
        tokio::join!(sending, serving)
    }

    /// Answers one request.
    async fn serve(&self, status: u16, headers: &str, body: &str) -> Received {
        let (mut stream, _) = self.listener.accept().await.expect("a connection");
        let mut bytes = Vec::new();
        let received = loop {
            let mut chunk = [0; 4_096];
            let read = stream.read(&mut chunk).await.expect("readable");
            assert!(read > 0, "the request is complete");
            bytes.extend_from_slice(&chunk[..read]);
            if let Some(received) = Received::read(&bytes) {
                break received;
            }
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.expect("writable");
        stream.shutdown().await.expect("closed");
        received
    }
}

fn destination(kind: ChannelType, config: &ChannelConfig) -> Destination {
    let channel = ChannelId::new(at("2024-01-03T00:00:00Z"), 2);
    Destination { account: account(), channel, kind, config: config.clone() }
}

/// A request that a provider received.
#[derive(Debug)]
struct Received {
    line: String,
    headers: http::HeaderMap,
    body: String,
}

impl Received {
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8(bytes.to_vec()).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let line = lines.next()?.to_owned();
        let headers: http::HeaderMap = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
            .into_iter()
            .collect();
        let length: usize = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
        (body.len() >= length).then(|| Self { line, headers, body: body.to_owned() })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Returns the configuration as JSON.
fn shown(config: &ChannelConfig) -> Value {
    serde_json::from_str(config.reveal()).expect("JSON")
}
