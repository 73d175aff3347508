//! The configuration: one typed whole, checked before anything is started.
//!
//! Place in the flow: `cli` hands over the sources, `app` turns the result into what each module
//! wants. `default.toml` lists all settings. Sources win in this order: options of the command
//! line, environment, file, defaults.
//!
//! On failure all mistakes are told at once, each with the setting, where it was set, and what is
//! allowed. A key in the file that is not a setting is a mistake; a variable that is not one is a
//! warning, since other programs may have put it there. Passwords and keys are never shown.

mod channels;
mod document;
mod effective;
mod listeners;
mod mistakes;
mod notify;
mod plans;
mod reader;
mod secrets;
mod sources;
mod stores;
mod traces;
mod users;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use document::{Setting, settings};
pub use effective::Loaded;
pub use listeners::{Http, Ops};
pub use mistakes::{Mistake, Mistakes};
pub use secrets::{OTHERS, others_can_read};
pub use sources::{Sources, no_color};
pub use stores::{Peers, Shared, Store};
pub use work::Rate;

use crate::accounts::UserSettings;
use crate::channels::Settings as ChannelSettings;
use crate::channels::email::Settings as MailSettings;
use crate::domain::plan::Plans;
use crate::domain::secret_key::SecretKey;
use crate::executor::Settings as ExecutorSettings;
use crate::notify::Settings as NotifySettings;
use crate::outbound::Settings as OutboundSettings;
use crate::scheduler::PrunerSettings;
use crate::telemetry::log::{self, LogFormat};
use crate::telemetry::traces::Settings as TraceSettings;
use reader::{Parsed, Raw, Reader, flag, list, seconds, text};

/// What this process is to do and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The roles it runs.
    pub roles: Roles,
    /// Where embedded adapters keep files.
    pub data_dir: PathBuf,
    /// The log.
    pub log: log::Settings,
    /// Where traces go, if anywhere.
    pub traces: Option<TraceSettings>,
    /// The public listener.
    pub http: Http,
    /// The operations listener.
    pub ops: Ops,
    /// Whether the service runs schedules of its own, to see whether it does its job.
    pub canary: bool,
    /// The store.
    pub store: Store,
    /// Beside which others this process works.
    pub peers: Peers,
    /// The number of shards that a new store is set up with.
    pub shards: u16,
    /// Whether `serve` applies the store's migrations.
    pub migrate: bool,
    /// The executor, retries included.
    pub executor: ExecutorSettings,
    /// Calls to the outside.
    pub outbound: OutboundSettings,
    /// Limits on API requests.
    pub rate: Rate,
    /// What accounts can be allowed.
    pub plans: Arc<Plans>,
    /// Who may become a user, and for how long users stay signed in.
    pub users: UserSettings,
    /// The server that mails are handed to, if there is one.
    pub mail: Option<MailSettings>,
    /// Notification channels.
    pub channels: ChannelSettings,
    /// How alerts are delivered.
    pub notify: NotifySettings,
    /// The keys by which secrets are encrypted, the one to write with first.
    pub secrets: Vec<SecretKey>,
    /// How long jobs and the audit log are kept.
    pub retention: PrunerSettings,
    /// How long requests under way may go on after the first stage of a stop.
    pub grace: Duration,
}

/// Which roles a replica runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// It answers the API.
    pub api: bool,
    /// It fires ticks and sweeps.
    pub scheduler: bool,
    /// It runs jobs.
    pub executor: bool,
    /// It delivers alerts.
    pub notifier: bool,
}

/// Reads and checks the configuration.
///
/// # Errors
/// All mistakes that are in it.
pub fn load(sources: &Sources) -> Result<Loaded, Mistakes> {
    load_for(sources, true)
}

/// Reads and checks the configuration for a command that needs only a part of it: what is said of
/// the store, the queue, the cluster and the roles need not go together.
///
/// # Errors
/// All mistakes that are in it.
pub fn load_part(sources: &Sources) -> Result<Loaded, Mistakes> {
    load_for(sources, false)
}

fn load_for(sources: &Sources, whole: bool) -> Result<Loaded, Mistakes> {
    let mut reader = Reader::new(sources::gather(sources));
    let config = read(&mut reader, whole);
    Loaded::check(config, reader)
}

fn read(reader: &mut Reader, whole: bool) -> Config {
    let data_dir = reader.read("data_dir", directory);
    let (http, ops) = listeners::read(reader);
    let before = reader.mistakes();
    let stores::Stores { store, peers, shards, migrate } = stores::read(reader, &data_dir, whole);
    let roles = read_roles(reader);
    // Nobody else could run what a process that is alone does not.
    let alone = matches!(peers, Peers::Alone) && reader.mistakes() == before;
    let enough = roles.api && roles.scheduler && roles.executor;
    if whole && alone && !enough {
        let why = "must have api, scheduler and executor in a process that is alone (single:)";
        reader.mistake("roles", why);
    }
    let retention = work::read_retention(reader);
    let grace = reader.read("shutdown.grace_seconds", seconds(0..=3_600));
    if http.limits.drain > grace {
        reader.mistake("shutdown.drain_seconds", "must not be more than shutdown.grace_seconds");
    }
    let plans = plans::read(reader);
    let users = users::read_users(reader, &plans);
    let channels = channels::read(reader, users.public_url.clone());
    Config {
        roles,
        data_dir,
        log: log::Settings {
            filter: reader.read("log", log_filter),
            format: reader.read("log_format", log_format),
            color: !no_color(),
        },
        traces: traces::read(reader),
        http,
        ops,
        canary: reader.read("canary.enabled", flag),
        store,
        peers,
        shards,
        migrate,
        executor: work::read_executor(reader),
        outbound: work::read_outbound(reader),
        rate: work::read_rate(reader),
        users,
        plans: Arc::new(plans),
        mail: users::read_mail(reader),
        channels,
        notify: notify::read_notify(reader),
        secrets: secrets::read(reader),
        retention,
        grace,
    }
}

fn read_roles(reader: &mut Reader) -> Roles {
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

fn role(raw: &Raw) -> Parsed<&'static str> {
    let given = text(raw)?;
    let known = ["api", "scheduler", "executor", "notifier"].into_iter();
    let allowed = || "must be some of api, scheduler, executor, notifier".to_owned();
    known.into_iter().find(|role| *role == given).ok_or_else(allowed)
}

fn directory(raw: &Raw) -> Parsed<PathBuf> {
    let path = text(raw)?;
    if path.is_empty() { Err("must not be empty".to_owned()) } else { Ok(path.into()) }
}

fn log_filter(raw: &Raw) -> Parsed<String> {
    let filter = text(raw)?;
    log::check_filter(&filter).map(|()| filter)
}

fn log_format(raw: &Raw) -> Parsed<LogFormat> {
    match text(raw)?.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

#[cfg(test)]
mod tests;
