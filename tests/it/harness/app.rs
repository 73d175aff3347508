//! Runs the service inside the test process, on its own free ports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::accounts::KeyRequest;
use punctual::app::{App, ServiceEnd};
use punctual::config::{Config, Sources, load};
use punctual::domain::audit::Author;
use punctual::domain::key::Scope;
use punctual::domain::plan::{Plan, Plans, UNLIMITED};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;

use super::client::ApiClient;
use super::recorder::Recorder;

/// The default settings of every service under test: it may call loopback targets, and it retries
/// after a short delay.
const USUAL: &[(&str, &str)] = &[
    ("http.listen", "127.0.0.1:0"),
    ("ops.listen", "127.0.0.1:0"),
    ("outbound.allow", "127.0.0.0/8"),
    ("rate.per_minute", "0"),
    ("rate.per_hour", "0"),
    ("retry.base_ms", "20"),
    ("retry.cap_ms", "200"),
];

/// A running service with an account, an API client of that account, and a target.
pub struct Service {
    /// `None` only during a restart.
    app: Option<App>,
    pub api: ApiClient,
    pub target: Recorder,
    config: Config,
    key: String,
    folder: TempDir,
}

impl Service {
    /// Starts a service on an empty folder.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a service with `settings` in addition to the default ones.
    pub async fn with(settings: &[(&'static str, &str)]) -> Self {
        Self::on(settings, Plan::unlimited(UNLIMITED)).await
    }

    /// Starts a service like `with`, with its account on `plan`.
    pub async fn on(settings: &[(&'static str, &str)], plan: Plan) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config(folder.path(), settings);
        let name = plan.name.clone();
        config.plans = Arc::new(Plans::new([plan]));
        let app = App::start(&config).await.expect("it starts");
        let key = new_key(&app, "first", &name).await;
        let api = ApiClient::new(app.public_address().expect("it serves the API"), &key);
        let target = Recorder::start().await;
        Self { app: Some(app), api, target, config, key, folder }
    }

    fn app(&self) -> &App {
        self.app.as_ref().expect("it runs")
    }

    /// Creates another account and returns a client of it.
    pub async fn other_account_client(&self, name: &str) -> ApiClient {
        self.api.with_key(&new_key(self.app(), name, UNLIMITED).await)
    }

    /// Returns the address of the operations listener.
    pub fn operations_address(&self) -> std::net::SocketAddr {
        self.app().operations_address()
    }

    /// Creates an account without an API key.
    pub async fn new_account(&self, name: &str) {
        let accounts = self.app().accounts();
        accounts.create(Author::SERVICE, name, UNLIMITED).await.expect("made");
    }

    /// Deletes the default account.
    pub async fn delete_account(&self) {
        let accounts = self.app().accounts();
        let account = accounts.named("first").await.expect("the usual one");
        accounts.delete(Author::SERVICE, &account).await.expect("deleted");
    }

    /// Creates and returns another API key of the default account.
    pub async fn second_key(&self) -> String {
        let accounts = self.app().accounts();
        let account = accounts.named("first").await.expect("the usual one");
        accounts
            .create_key(Author::SERVICE, &account, &key_request())
            .await
            .expect("made")
            .reveal()
            .to_owned()
    }

    /// Returns the secrets that sign the requests of the default account, newest first.
    pub async fn signing_secrets(&self) -> Vec<String> {
        self.signing_secrets_of("first").await
    }

    /// Returns the secrets that sign the requests of an account, newest first.
    pub async fn signing_secrets_of(&self, account: &str) -> Vec<String> {
        let accounts = self.app().accounts();
        let account = accounts.named(account).await.expect("it exists");
        let secrets = accounts.signing_secrets(&account).await.expect("listed");
        secrets.into_iter().filter_map(|one| Some(one.secret?.reveal().to_string())).collect()
    }

    /// Rotates the signing secret of the default account.
    pub async fn rotate_signing_secret(&self, overlap: Duration) {
        let accounts = self.app().accounts();
        let account = accounts.named("first").await.expect("the usual one");
        let rotated = accounts.rotate_signing_secret(Author::SERVICE, &account, overlap).await;
        rotated.expect("rotated");
    }

    /// Opens a connection to the store of the service.
    pub async fn store(&self) -> SqliteConnection {
        let path = self.folder.path().join("punctual.db");
        SqliteConnectOptions::new().filename(path).connect().await.expect("opened")
    }

    /// Stops the service, runs `meanwhile` on its store, and starts the service again.
    pub async fn restart(&mut self, meanwhile: impl AsyncFnOnce(&mut SqliteConnection)) {
        let app = self.app.take().expect("it runs");
        assert_eq!(app.stop().await, ServiceEnd::AsAsked, "a clean stop");
        let mut connection = self.store().await;
        meanwhile(&mut connection).await;
        connection.close().await.expect("closed");
        let app = App::start(&self.config).await.expect("it starts");
        self.api = ApiClient::new(app.public_address().expect("it serves the API"), &self.key);
        self.app = Some(app);
    }
}

fn config(folder: &Path, settings: &[(&'static str, &str)]) -> Config {
    let folder = folder.to_str().expect("text").to_owned();
    let given = USUAL.iter().chain(settings).map(|(key, value)| (*key, (*value).to_owned()));
    let options = std::iter::once(("data_dir", folder)).chain(given).collect();
    let sources = Sources { options, ..Sources::default() };
    load(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}")).config
}

async fn new_key(app: &App, name: &str, plan: &str) -> String {
    let account = app.accounts().create(Author::SERVICE, name, plan).await.expect("made");
    app.accounts()
        .create_key(Author::SERVICE, &account, &key_request())
        .await
        .expect("made")
        .reveal()
        .to_owned()
}

fn key_request() -> KeyRequest {
    KeyRequest { name: "test".to_owned(), scope: Scope::Write, expires_in: None }
}
