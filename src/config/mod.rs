//! The configuration: one typed value, checked as a whole before anything is started.
//!
//! Place in the flow: `cli` passes the sources, and `app` converts the result into the settings of
//! each module. `default.toml` lists all settings. Sources override each other in this order,
//! highest first: command-line options, environment, file, defaults.
//!
//! On failure: all mistakes are reported at once, each with the setting, its source and the allowed
//! values. An unknown key in the file is a mistake. An unknown environment variable is only a
//! warning, because another program may have set it. Passwords and keys are never shown.

mod channels;
mod document;
mod effective;
mod errors;
mod execution;
mod listeners;
mod notify;
mod oidc;
mod plans;
mod reader;
mod secrets;
mod sources;
mod stores;
mod traces;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use document::{Setting, settings};
pub use effective::LoadedConfig;
pub use errors::{ConfigError, ConfigErrors};
pub use execution::RateSettings;
pub use listeners::{HttpSettings, OpsSettings};
pub use secrets::{OTHERS, others_can_read};
pub use sources::{Sources, no_color};
pub use stores::{ClusterMode, SharedServers, StoreChoice};

use crate::accounts::{OidcSettings, UserSettings};
use crate::channels::ChannelSettings;
use crate::channels::email::MailSettings;
use crate::domain::plan::Plans;
use crate::domain::secret_key::SecretKey;
use crate::executor::ExecutorSettings;
use crate::notify::NotifierSettings;
use crate::outbound::OutboundSettings;
use crate::scheduler::HistoryPrunerSettings;
use crate::telemetry::log::{self, LogFormat};
use crate::telemetry::traces::TraceSettings;
use reader::{ParseResult, SettingsReader, SourceValue, flag, list, seconds, text};

/// The configuration of this process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The roles that this process runs.
    pub roles: Roles,
    /// The directory in which embedded adapters keep their files.
    pub data_dir: PathBuf,
    /// The settings of the log.
    pub log: log::LogSettings,
    /// The settings of the trace exporter, if traces are exported.
    pub traces: Option<TraceSettings>,
    /// The settings of the public listener.
    pub http: HttpSettings,
    /// The settings of the operations listener.
    pub ops: OpsSettings,
    /// Enables the canary: schedules that the service runs to monitor itself.
    pub canary: bool,
    /// The settings of the store.
    pub store: StoreChoice,
    /// The other replicas of the cluster, if this process belongs to one.
    pub cluster_mode: ClusterMode,
    /// The number of shards with which a new store is set up.
    pub shards: u16,
    /// Makes `serve` apply the store's migrations.
    pub migrate: bool,
    /// The settings of the executor, including retries.
    pub executor: ExecutorSettings,
    /// The settings of outbound requests.
    pub outbound: OutboundSettings,
    /// The rate limits of the API.
    pub rate: RateSettings,
    /// The plans that accounts can have.
    pub plans: Arc<Plans>,
    /// The rules for signing up, and the lifetime of sessions.
    pub users: UserSettings,
    /// The settings of the OpenID provider, if there is one.
    pub oidc: Option<OidcSettings>,
    /// The settings of the mail server, if there is one.
    pub mail: Option<MailSettings>,
    /// The settings of notification channels.
    pub channels: ChannelSettings,
    /// The settings of the notifier.
    pub notify: NotifierSettings,
    /// The keys that encrypt secrets. The first one encrypts new secrets; all of them decrypt.
    pub secrets: Vec<SecretKey>,
    /// The retention periods of jobs and of the audit log.
    pub retention: HistoryPrunerSettings,
    /// The maximum time that running requests may take after the first stage of a stop.
    pub grace: Duration,
}

/// The roles that a replica runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Serves the API.
    pub api: bool,
    /// Fires ticks and runs the job rescuer.
    pub scheduler: bool,
    /// Executes jobs.
    pub executor: bool,
    /// Delivers alerts.
    pub notifier: bool,
}

/// Reads and checks the whole configuration.
///
/// # Errors
/// Returns all mistakes of the configuration.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigErrors> {
    load_for(sources, true)
}

/// Reads and checks the configuration for a command that needs only a part of it. The settings of
/// the store, the queue, the cluster and the roles need not be consistent with each other.
///
/// # Errors
/// Returns all mistakes of the configuration.
pub fn load_part(sources: &Sources) -> Result<LoadedConfig, ConfigErrors> {
    load_for(sources, false)
}

fn load_for(sources: &Sources, whole: bool) -> Result<LoadedConfig, ConfigErrors> {
    let mut reader = SettingsReader::new(sources::gather(sources));
    let config = read(&mut reader, whole);
    LoadedConfig::check(config, reader)
}

fn read(reader: &mut SettingsReader, whole: bool) -> Config {
    let data_dir = reader.read("data_dir", directory);
    let (http, ops) = listeners::read(reader);
    let before = reader.error_count();
    let stores::StoreSettings { store, cluster_mode, shards, migrate } =
        stores::read(reader, &data_dir, whole);
    let roles = read_roles(reader);
    // A single process has no other replica that could run the missing roles.
    let alone = matches!(cluster_mode, ClusterMode::Alone) && reader.error_count() == before;
    let enough = roles.api && roles.scheduler && roles.executor;
    if whole && alone && !enough {
        let why = "must include api, scheduler and executor in a single process (single:)";
        reader.mistake("roles", why);
    }
    let retention = execution::read_retention(reader);
    let grace = reader.read("shutdown.grace_seconds", seconds(0..=3_600));
    if http.limits.drain > grace {
        reader.mistake("shutdown.drain_seconds", "must not be more than shutdown.grace_seconds");
    }
    let plans = plans::read(reader);
    let users = users::read_users(reader, &plans);
    let oidc = oidc::read(reader, users.public_url.as_deref());
    let channels = channels::read(reader, users.public_url.clone());
    Config {
        roles,
        data_dir,
        log: log::LogSettings {
            filter: reader.read("log", log_filter),
            format: reader.read("log_format", log_format),
            color: !no_color(),
        },
        traces: traces::read(reader),
        http,
        ops,
        canary: reader.read("canary.enabled", flag),
        store,
        cluster_mode,
        shards,
        migrate,
        executor: execution::read_executor(reader),
        outbound: execution::read_outbound(reader),
        rate: execution::read_rate(reader),
        users,
        oidc,
        plans: Arc::new(plans),
        mail: users::read_mail(reader),
        channels,
        notify: notify::read_notify(reader),
        secrets: secrets::read(reader),
        retention,
        grace,
    }
}

fn read_roles(reader: &mut SettingsReader) -> Roles {
    let names = reader.read("roles", list(role));
    let has = |name| names.contains(&name);
    let roles = Roles {
        api: has("api"),
        scheduler: has("scheduler"),
        executor: has("executor"),
        notifier: has("notifier"),
    };
    if roles == Roles::default() {
        reader.mistake("roles", "must be at least one of api, scheduler, executor, notifier");
    }
    roles
}

fn role(raw: &SourceValue) -> ParseResult<&'static str> {
    let given = text(raw)?;
    let known = ["api", "scheduler", "executor", "notifier"].into_iter();
    let allowed = || "must be some of api, scheduler, executor, notifier".to_owned();
    known.into_iter().find(|role| *role == given).ok_or_else(allowed)
}

fn directory(raw: &SourceValue) -> ParseResult<PathBuf> {
    let path = text(raw)?;
    if path.is_empty() { Err("must not be empty".to_owned()) } else { Ok(path.into()) }
}

fn log_filter(raw: &SourceValue) -> ParseResult<String> {
    let filter = text(raw)?;
    log::check_filter(&filter).map(|()| filter)
}

fn log_format(raw: &SourceValue) -> ParseResult<LogFormat> {
    match text(raw)?.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

#[cfg(test)]
mod tests;
