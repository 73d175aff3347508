//! The API in the test process: its own store, a stopped clock, requests without sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use ipnet::IpNet;
use punctual::accounts::{Accounts, Authenticator, KeyRequest, RateLimiter, RateLimits, Throttle};
use punctual::api;
use punctual::channels::{self, Channels};
use punctual::domain::audit::Author;
use punctual::domain::key::Scope;
use punctual::domain::plan::{Plan, Plans, UNLIMITED};
use punctual::domain::{ScheduleId, Timestamp};
use punctual::notifications::{NotificationParts, Notifications};
use punctual::outbound;
use punctual::queue::SharedQueue;
use punctual::queue::memory::MemoryQueue;
use punctual::runtime::{Clock, Random, Tasks};
use punctual::schedules::{self, Schedules};
use punctual::store::sqlite::{SqliteSettings, SqliteStore};
use punctual::store::{Account, LeadershipStore, SharedStore};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tower::ServiceExt;

use super::away_queue::AwayQueue;
use crate::conformance::faults::Faults;
use crate::conformance::store::flaky::FlakyStore;
use crate::harness::keys::cipher;
use crate::harness::target::Target;

/// The start time of every test: 2030-01-01T00:00:30Z.
pub const START: Timestamp = Timestamp::from_millis(1_893_456_030_000);
pub const SHARDS: u16 = 4;

/// The setup of a service under test.
pub struct Setup {
    pub limits: RateLimits,
    pub base_path: &'static str,
    /// The number of shards that the API uses. The store has `SHARDS`.
    pub shards: u16,
    /// `true` if all operations of the queue fail.
    pub queue_is_away: bool,
    /// The configured plans.
    pub plans: Vec<Plan>,
    /// The plan of the default account.
    pub plan: &'static str,
    /// The proxies whose forwarded client address is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The faults that store calls of the service meet.
    pub faults: Option<Arc<Faults>>,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = RateLimits { per_minute: 100_000, per_hour: 1_000_000 };
        Self {
            limits,
            base_path: "",
            shards: SHARDS,
            queue_is_away: false,
            plans: Vec::new(),
            plan: UNLIMITED,
            trusted_proxies: Vec::new(),
            faults: None,
        }
    }
}

/// A service under test with one account and a key of it.
pub struct Service {
    pub router: Router,
    pub store: Arc<SqliteStore>,
    pub queue: Arc<MemoryQueue>,
    pub accounts: Accounts,
    pub clock: Clock,
    pub tasks: Tasks,
    pub account: Account,
    pub key: String,
    pub folder: tempfile::TempDir,
}

impl Service {
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SqliteSettings::new(folder.path().join("punctual.db"));
        let store = Arc::new(SqliteStore::open(&settings, &cipher()).await.expect("opened"));
        store.migrate().await.expect("migrated");
        store.set_up_shards(SHARDS).await.expect("set up");
        let (clock, random, tasks) = (Clock::manual(START), Random::seeded(7), Tasks::new());
        let queue = Arc::new(MemoryQueue::new());
        let shared: SharedQueue =
            if setup.queue_is_away { Arc::new(AwayQueue::default()) } else { queue.clone() };
        let plans = Arc::new(Plans::new(setup.plans));
        let accounts = Accounts::new(store.clone(), clock.clone(), random.clone(), plans.clone());
        let own: SharedStore = match setup.faults {
            Some(faults) => Arc::new(FlakyStore { inner: store.clone(), faults, is_told: true }),
            None => store.clone(),
        };
        let client =
            outbound::Client::new(outbound::OutboundSettings::default(), clock.clone(), &tasks);
        let notifications = Notifications::new(NotificationParts {
            store: own.clone(),
            channels: local_channels(&clock, &random, &tasks),
            clock: clock.clone(),
            random: random.clone(),
            tasks: tasks.clone(),
            plans: plans.clone(),
        });
        let router = api::router(api::ApiParts {
            notifications,
            schedules: Schedules::new(schedules::ScheduleParts {
                store: own.clone(),
                queue: shared.clone(),
                outbound: client.expect("a client"),
                clock: clock.clone(),
                random: random.clone(),
                tasks: tasks.clone(),
                shards: setup.shards,
                plans: plans.clone(),
                handover: None,
            }),
            throttle: Arc::new(Throttle::new(&shared)),
            accounts: Accounts::new(own.clone(), clock.clone(), random.clone(), plans.clone()),
            authenticator: Authenticator::new(
                own,
                RateLimiter::new(shared, setup.limits),
                clock.clone(),
                plans,
            ),
            trusted_proxies: setup.trusted_proxies,
            clock: clock.clone(),
            random,
            tasks: tasks.clone(),
            base_path: setup.base_path.parse().expect("a base path"),
            pages: Router::new(),
        });
        let account = accounts.create(Author::SERVICE, "first", setup.plan).await.expect("made");
        let key = new_key(&accounts, &account, Scope::Write, None).await;
        Self { router, store, queue, accounts, clock, tasks, account, key, folder }
    }

    /// Creates another account and returns a key of it.
    pub async fn other_account_key(&self) -> String {
        let account = self.accounts.create(Author::SERVICE, "stranger", UNLIMITED).await;
        let account = account.expect("made");
        new_key(&self.accounts, &account, Scope::Write, None).await
    }

    /// Returns a read-only key of the account.
    pub async fn read_key(&self) -> String {
        new_key(&self.accounts, &self.account, Scope::Read, None).await
    }

    /// Returns a key of the account that expires after `expires_in`.
    pub async fn expiring_key(&self, expires_in: Duration) -> String {
        new_key(&self.accounts, &self.account, Scope::Write, Some(expires_in)).await
    }

    /// Starts a request with the key of the account.
    pub fn call(&self, method: &str, path: &str) -> Call<'_> {
        let call =
            Call { service: self, request: Request::builder(), body: Body::empty(), from: 1 };
        call.to(method, path).header("x-api-key", &self.key)
    }

    /// Starts a request without a key.
    pub fn bare(&self, method: &str, path: &str) -> Call<'_> {
        let call =
            Call { service: self, request: Request::builder(), body: Body::empty(), from: 1 };
        call.to(method, path)
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.call("PATCH", path).json(body).send().await
    }

    /// Creates a schedule with `fields` in addition to the default ones.
    pub async fn create(&self, fields: Value) -> Value {
        let answer = self.post("/v1/schedules", &schedule_with(fields)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body["data"].clone()
    }

    /// Creates a schedule and triggers it. Returns the ids of the schedule and of the job.
    pub async fn job(&self) -> (String, String) {
        let schedule = id(&self.create(json!({})).await);
        let answer = self.call("POST", &format!("/v1/schedules/{schedule}/trigger")).send().await;
        (schedule, answer.ok().as_str().expect("an id").to_owned())
    }

    /// Creates a webhook channel that posts to `target`. Returns its id.
    pub async fn webhook(&self, target: &Target) -> String {
        let config = json!({ "url": target.url("/hook") });
        let new = json!({ "type": "webhook", "label": "Hook", "config": config });
        let answer = self.post("/v1/notification-channels", &new).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        id(&answer.body["data"])
    }

    /// Creates and verifies a webhook channel that posts to `target`. Returns its id.
    pub async fn verified(&self, target: &Target) -> String {
        let channel = self.webhook(target).await;
        let path = format!("/v1/notification-channels/{channel}/verify");
        let answer = self.call("POST", &path).send().await;
        assert_eq!(answer.ok()["verified"], true, "{}", answer.text);
        channel
    }

    /// Opens a second connection to the store of the service.
    pub async fn second_connection(&self) -> SqliteConnection {
        let file = self.folder.path().join("punctual.db");
        SqliteConnectOptions::new().filename(file).connect().await.expect("opened")
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Creates channels that may call this machine. There is no mail server.
fn local_channels(clock: &Clock, random: &Random, tasks: &Tasks) -> Channels {
    let allow = vec!["127.0.0.0/8".parse().expect("a network")];
    let outbound = outbound::OutboundSettings { allow, ..outbound::OutboundSettings::default() };
    let client = outbound::Client::new(outbound, clock.clone(), tasks).expect("a client");
    let settings = channels::ChannelSettings {
        chat_hosts: vec!["127.0.0.1".to_owned()],
        telegram_url: "http://127.0.0.1:1".to_owned(),
        public_url: Some("https://punctual.example".to_owned()),
    };
    Channels::new(settings, client, None, clock.clone(), random.clone())
}

/// Starts a target that accepts every notification.
pub async fn accepting() -> Target {
    Target::answering("127.0.0.1:0", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
}

/// Starts a target that answers every notification with 500.
pub async fn faulty() -> Target {
    let answer = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno";
    Target::answering("127.0.0.1:0", answer).await
}

async fn new_key(
    accounts: &Accounts,
    account: &Account,
    scope: Scope,
    expires_in: Option<Duration>,
) -> String {
    let request = KeyRequest { name: "test".into(), scope, expires_in };
    accounts.create_key(Author::SERVICE, account, &request).await.expect("made").reveal().to_owned()
}

/// A request builder.
pub struct Call<'a> {
    service: &'a Service,
    request: http::request::Builder,
    body: Body,
    from: u8,
}

impl Call<'_> {
    fn to(mut self, method: &str, path: &str) -> Self {
        self.request = self.request.method(method).uri(path);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Adds a header with a value that need not be text.
    pub fn raw_header(mut self, name: &str, value: http::HeaderValue) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Replaces the key.
    pub fn key(mut self, key: &str) -> Self {
        let headers = self.request.headers_mut().expect("a valid request");
        headers.insert("x-api-key", key.parse().expect("a header's value"));
        self
    }

    /// Sets the last part of the client's address.
    pub fn from(self, from: u8) -> Self {
        Self { from, ..self }
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub fn body(self, body: impl Into<Body>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub async fn send(self) -> Answer {
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, self.from)), 5_000);
        let request = self.request.extension(ConnectInfo(peer)).body(self.body);
        let response = self.service.router.clone().oneshot(request.expect("a valid request"));
        let (parts, body) = response.await.expect("infallible").into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let body = serde_json::from_str(&text).unwrap_or_default();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body, text }
    }
}

/// A response.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as JSON, or `null` if it is not JSON.
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// Returns the data of a response with status 200.
    pub fn ok(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.text);
        assert_eq!(self.body["success"], true, "{}", self.text);
        &self.body["data"]
    }

    /// Asserts that the response is this error in the envelope.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str, message: &str) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        let error = &self.body["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)));
        assert_eq!(self.body.as_object().expect("an object").len(), 1, "{}", self.text);
        self
    }

    /// Asserts that the response is a validation error with exactly these field errors.
    #[track_caller]
    pub fn invalid(&self, field_errors: Value) {
        self.refused(400, "VALIDATION_ERROR", "Validation error");
        let details = Value::from_iter([("fieldErrors", field_errors)]);
        assert_eq!(self.body["error"]["details"], details);
    }

    #[track_caller]
    pub fn not_found(&self, what: &str) {
        self.refused(404, "NOT_FOUND", what);
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }

    /// Returns the rate limit, the remaining calls, and the reset time.
    pub fn limits(&self) -> (&str, &str, &str) {
        let header = |name| self.header(name);
        (header("x-ratelimit-limit"), header("x-ratelimit-remaining"), header("x-ratelimit-reset"))
    }
}

/// Returns a schedule that runs at 02:00 in Berlin, with `fields` in addition to the default ones.
pub fn schedule_with(fields: Value) -> Value {
    let mut schedule = json!({
        "name": "Nightly",
        "cronExpression": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "endpoint": "https://example.com/hook",
        "httpMethod": "POST",
    });
    let Value::Object(fields) = fields else { panic!("not an object: {fields}") };
    for (name, value) in fields {
        schedule[name] = value;
    }
    schedule
}

pub fn id(record: &Value) -> String {
    record["id"].as_str().expect("an id").to_owned()
}

/// Returns an id that no schedule has.
pub fn unknown_schedule() -> String {
    ScheduleId::new(START, 1).to_string()
}

/// Returns the time `seconds` after the start of the tests, as in responses.
pub fn at(seconds: u64) -> String {
    START.plus(Duration::from_secs(seconds)).to_string()
}
