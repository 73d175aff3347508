//! HTTP calls to providers, and the interpretation of their responses.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use super::contract::{SendError, SentMessage};
use super::text::{block, one_line};
use crate::domain::AccountId;
use crate::domain::alert::Mask;
use crate::domain::alert::content::EXCERPT;
use crate::domain::alert::delivery::{DeliveryError, MAX_RETRY_AFTER};
use crate::domain::endpoint::Endpoint;
use crate::domain::outcome::{ErrorCode, Failure, Response};
use crate::domain::retry::parse_retry_after;
use crate::outbound::{Client, RefusedUrl, Request};
use crate::runtime::Clock;

/// The maximum length of a quoted response in a message, in characters.
const MAX_QUOTE: usize = 200;
/// The minimum length of a URL path segment that is treated as a token, in bytes.
const TOKEN_LENGTH: usize = 16;

/// A provider as it appears in messages to users.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// The name of the provider, such as `Slack`.
    pub name: &'static str,
    /// The part of the provider that the channel uses, such as `The Slack webhook`.
    pub destination: &'static str,
    /// `true` if status 404 means that the destination no longer exists.
    pub gone_on_404: bool,
    /// The advice to the user if the destination no longer exists.
    pub advice: &'static str,
}

/// A call to a provider: a POST request with a JSON body.
pub struct ProviderCall {
    /// The account that makes the call.
    pub account: AccountId,
    /// The provider.
    pub provider: Provider,
    /// The URL, which is secret.
    pub url: String,
    /// The headers in addition to `Content-Type`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// The timeout of the call.
    pub timeout: Duration,
    /// The secrets that must not appear in messages or excerpts.
    pub mask: Mask,
}

/// A successful response.
#[derive(Debug)]
pub struct ProviderAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The first 64 KiB of the body.
    pub body: Vec<u8>,
    /// The first characters of the body, with secrets masked.
    pub excerpt: Option<String>,
}

impl From<ProviderAnswer> for SentMessage {
    fn from(answer: ProviderAnswer) -> Self {
        Self { status: Some(answer.status), response: answer.excerpt, config: None }
    }
}

/// Calls providers through the egress guard.
#[derive(Clone)]
pub struct ProviderClient {
    client: Client,
    clock: Clock,
}

impl ProviderClient {
    /// Creates a client that calls through `client`.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Checks a URL from a user against the egress rules.
    pub fn check(&self, url: &str) -> Result<(), RefusedUrl> {
        self.client.check(url).map(|_| ())
    }

    /// Makes the call and interprets the response.
    pub async fn post(&self, call: ProviderCall) -> Result<ProviderAnswer, SendError> {
        let ProviderCall { account, provider, url, mut headers, body, timeout, mask } = call;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Some(Bytes::from(body));
        let request = Request { method: Method::POST, url, headers, body };
        let exchange = self.client.send(account, request, timeout).await;
        match exchange.result {
            Ok(response) => {
                ResponseJudge { provider, mask: &mask, clock: &self.clock }.judge(response)
            }
            Err(failure) => Err(unreached(provider, &failure)),
        }
    }
}

/// Converts a failure without a response.
fn unreached(provider: Provider, failure: &Failure) -> SendError {
    let code = match failure.code {
        ErrorCode::Timeout => DeliveryError::Timeout,
        ErrorCode::Dns => DeliveryError::Dns,
        ErrorCode::Connect => DeliveryError::Connect,
        ErrorCode::Tls => DeliveryError::Tls,
        ErrorCode::Network => DeliveryError::Network,
        ErrorCode::BlockedAddress => DeliveryError::BlockedAddress,
        _ => DeliveryError::Internal,
    };
    SendError::new(code, format!("{} was not reached: {}.", provider.name, failure.message))
}

/// Interprets the response of one call.
struct ResponseJudge<'a> {
    provider: Provider,
    mask: &'a Mask,
    clock: &'a Clock,
}

impl ResponseJudge<'_> {
    fn judge(&self, response: Response) -> Result<ProviderAnswer, SendError> {
        let Response { status, headers, body, .. } = response;
        let text = self.mask.apply(&String::from_utf8_lossy(&body));
        let excerpt = Some(block(&text, EXCERPT)).filter(|excerpt| !excerpt.is_empty());
        if (200..300).contains(&status) {
            return Ok(ProviderAnswer { status, body, excerpt });
        }
        let gone = status == 410 || (status == 404 && self.provider.gone_on_404);
        let code = match status {
            _ if gone => DeliveryError::ChannelGone,
            429 => DeliveryError::RateLimited,
            _ => DeliveryError::HttpStatus,
        };
        let json = serde_json::from_slice(&body).unwrap_or_default();
        let message = self.message(status, gone, &self.words(&json, &text));
        let retry_after = self.retry_after(&headers, &json);
        Err(SendError { code, message, status: Some(status), response: excerpt, retry_after, gone })
    }

    fn message(&self, status: u16, gone: bool, words: &str) -> String {
        let Provider { name, destination, advice, .. } = self.provider;
        if gone {
            return format!("{destination} no longer exists (status {status}). {advice}");
        }
        match status {
            300..400 => format!(
                "{name} answered with a redirect (status {status}). Redirects are not followed: \
                 set the final URL."
            ),
            429 => format!("{name} asks to slow down (status 429)."),
            _ if words.is_empty() => format!("{name} answered with status {status}."),
            _ => format!("{name} answered with status {status}: {words}"),
        }
    }

    /// Returns the provider's own description of the failure, on one line.
    fn words(&self, json: &Value, text: &str) -> String {
        let said = ["description", "message", "error"].iter().find_map(|name| json[name].as_str());
        match said {
            Some(said) => one_line(&self.mask.apply(said), MAX_QUOTE),
            // An HTML page on one line is not readable.
            None if text.trim_start().starts_with('<') => String::new(),
            None => one_line(text, MAX_QUOTE),
        }
    }

    /// Returns the delay that the provider asks for: from `Retry-After`, or from the JSON of
    /// Discord and Telegram, which may be more exact.
    fn retry_after(&self, headers: &[(String, String)], json: &Value) -> Option<Duration> {
        let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
        let header = header.and_then(|(_, value)| parse_retry_after(value, self.clock.now()));
        let seconds = [&json["retry_after"], &json["parameters"]["retry_after"]];
        let seconds = seconds.into_iter().find_map(Value::as_f64).filter(|s| *s >= 0.0);
        let json = seconds.and_then(|seconds| {
            Duration::try_from_secs_f64(seconds.min(MAX_RETRY_AFTER.as_secs_f64())).ok()
        });
        header.max(json)
    }
}

/// Returns the mask of a secret URL: it hides the whole URL, its path, its query, and each path
/// segment that looks like a token.
pub fn mask_of_url(url: &str) -> Mask {
    let mut secrets = vec![url.to_owned()];
    if let Ok(endpoint) = Endpoint::parse(url) {
        let url = endpoint.url();
        secrets.extend([url.to_string(), url.path().to_owned()]);
        secrets.extend(url.query().map(|query| format!("{}?{query}", url.path())));
        let parts = url.path().split('/').filter(|part| part.len() >= TOKEN_LENGTH);
        secrets.extend(parts.map(str::to_owned));
    }
    Mask::of(url, None).with(secrets)
}
