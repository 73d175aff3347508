//! The commands and their arguments.

use clap::{Parser, Subcommand};

use super::accounts::{AccountCommand, KeyCommand};
use super::audit_log::AuditLogArgs;
use super::cluster::ClusterArgs;
use super::copy::CopyArgs;
use super::cron::CronArgs;
use super::doctor::DoctorArgs;
use super::openapi::OpenapiArgs;
use super::secrets::SecretsCommand;
use super::settings::{All, OpsOnly, SettingArgs, StoreOnly};
use super::signing::SigningCommand;
use super::users::UserCommand;
use super::verify::VerifyArgs;

/// Runs HTTP requests on cron schedules.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  punctual dev                                   try it: everything in one process
  punctual cron '*/15 9-17 * * MON-FRI' --tz Europe/Berlin
  punctual config                                all settings, explained";

const DEV_HELP: &str = "\
Examples:
  punctual dev
  punctual dev --data-dir /tmp/demo --http-listen 127.0.0.1:9000";

const SERVE_HELP: &str = "\
Examples:
  punctual serve --store-url sqlite:/var/lib/punctual/punctual.db --http-listen 0.0.0.0:8080
  punctual serve --config /etc/punctual.toml --log-format json
  PUNCTUAL_OUTBOUND_ALLOW=10.1.0.0/16 punctual serve";

const DOCTOR_HELP: &str = "\
Examples:
  punctual doctor --config /etc/punctual.toml
  punctual doctor --replicas 3 --json";

const COPY_HELP: &str = "\
Example:
  PUNCTUAL_STORE_PASSWORD_FILE=/etc/punctual/password punctual copy \\
    --from sqlite:/var/lib/punctual/punctual.db --to postgres://punctual@db:5432/punctual";

const RESTORED_HELP: &str = "\
Example:
  systemctl stop punctual
  cp /backup/punctual.db /var/lib/punctual/punctual.db
  punctual restored --data-dir /var/lib/punctual
  systemctl start punctual";

const VERIFY_HELP: &str = "\
Examples:
  punctual verify --url https://punctual.example.com --key-file key --target https://example.com/
  punctual verify --url http://127.0.0.1:8080 --key-file key --minutes 5 \\
    --listen 10.0.0.5:9000 --target http://10.0.0.5:9000/";

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process, to try it: with an account, a key and a first schedule
    ///
    /// Keeps its data in ./punctual-data (--data-dir), listens on loopback only, and lets
    /// schedules call this machine.
    #[command(after_help = DEV_HELP)]
    Dev(SettingArgs<All>),
    /// Run the service
    ///
    /// All settings can also be given in a TOML file and in the environment; `punctual config`
    /// prints them with their comments.
    #[command(after_help = SERVE_HELP)]
    Serve(SettingArgs<All>),
    /// Apply the migrations that the store is missing
    Migrate(SettingArgs<StoreOnly>),
    /// Show who is alive, who leads which shard, and how late it is
    ///
    /// Exits with 1 if one of the servers does not answer, after showing what the others say.
    Cluster(ClusterArgs),
    /// Check the configuration against its servers, before a start or beside a running service
    ///
    /// Versions, rights, latency, clocks, memory, connections, certificates and disk: a line each, with
    /// what to do. Exits with 1 if a check fails; warnings are no failure. Changes nothing.
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Copy an installation from one machine to the store of a cluster
    ///
    /// Everything: accounts, users, keys, schedules, jobs and their attempts, skips. Can be repeated, and
    /// goes on where it was interrupted, until the first replica of the cluster has started.
    #[command(after_help = COPY_HELP)]
    Copy(CopyArgs),
    /// Make a restored backup ready: before the first start on it
    ///
    /// What has become due since the backup was made may have run already. Each schedule's next tick
    /// moves past now, and the ticks before are recorded as skips. Stop all replicas first.
    #[command(after_help = RESTORED_HELP)]
    Restored(SettingArgs<StoreOnly>),
    /// Make or list accounts, and say who belongs to them
    #[command(subcommand)]
    Account(AccountCommand),
    /// Make, list or disable users, who sign in with a password
    #[command(subcommand)]
    User(UserCommand),
    /// Make, list, rotate or revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// List, show or rotate the secrets that requests are signed with
    #[command(subcommand)]
    Signing(SigningCommand),
    /// Make a key for secrets, or encrypt them all with another one
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// List who changed what, newest first: of an account, or of what belongs to none
    AuditLog(AuditLogArgs),
    /// Explain a cron expression and list its next runs
    Cron(CronArgs),
    /// Print the OpenAPI document of the API
    Openapi(OpenapiArgs),
    /// Print every metric that the service has, as the page of the documentation
    Metrics,
    /// Make schedules at a running service, and exit with 0 only if each of their ticks ran once
    ///
    /// Prints how many ticks were missed, doubled and late, and removes the schedules.
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Exit with 0 if a running service is ready; for containers
    Healthcheck(SettingArgs<OpsOnly>),
    /// Print the configuration in force, with comments; passwords are hidden
    Config(SettingArgs<All>),
}
