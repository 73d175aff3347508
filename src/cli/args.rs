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
use super::settings::{AllSettings, OpsOnly, SettingArgs, StoreOnly};
use super::signing::SigningCommand;
use super::users::UserCommand;
use super::verify::VerifyArgs;

/// Runs HTTP requests on cron schedules.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  punctual dev                                   try it: everything in one process
  punctual cron '*/15 9-17 * * MON-FRI' --tz Europe/Berlin
  punctual config                                all settings, with explanations";

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

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process, to try it out: with an account, a key and a first schedule
    ///
    /// Keeps its data in ./punctual-data (--data-dir), listens on loopback only, and lets
    /// schedules call this machine.
    #[command(after_help = DEV_HELP)]
    Dev(SettingArgs<AllSettings>),
    /// Run the service
    ///
    /// All settings can also be given in a TOML file and in the environment; `punctual config`
    /// prints them with their comments.
    #[command(after_help = SERVE_HELP)]
    Serve(SettingArgs<AllSettings>),
    /// Apply the missing migrations of the store
    Migrate(SettingArgs<StoreOnly>),
    /// Show the live replicas, the leader of each shard, and its delay
    ///
    /// Exits with 1 if one of the servers does not answer, after showing the answers of the others.
    Cluster(ClusterArgs),
    /// Check the configuration against its servers, before a start or beside a running service
    ///
    /// Checks versions, permissions, latency, clocks, memory, connections, certificates and disks,
    /// and prints a line for each, with a remedy. Exits with 1 if a check fails, but not for a
    /// warning. Changes nothing.
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Copy an installation from one machine to the store of a cluster
    ///
    /// Copies everything: accounts, users, keys, schedules with all their definitions, jobs and
    /// their attempts, skips, notification channels with their preferences and deliveries, and the
    /// audit log. Can be repeated until the first replica of the cluster has started; continues an
    /// interrupted copy.
    #[command(after_help = COPY_HELP)]
    Copy(CopyArgs),
    /// Prepare a restored backup for the first start on it
    ///
    /// Ticks that became due since the backup was made may have run already. So the next tick of
    /// each schedule moves into the future, and the ticks before it are recorded as skips. Stop all
    /// replicas first.
    #[command(after_help = RESTORED_HELP)]
    Restored(SettingArgs<StoreOnly>),
    /// Create or list accounts, and manage their members
    #[command(subcommand)]
    Account(AccountCommand),
    /// Create, list or disable users, who sign in to the dashboard
    #[command(subcommand)]
    User(UserCommand),
    /// Create, list, rotate or revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// List, show or rotate the secrets that sign requests
    #[command(subcommand)]
    Signing(SigningCommand),
    /// Generate a key for secrets, or encrypt all secrets with another key
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// List changes and their authors, newest first: of an account, or outside all accounts
    AuditLog(AuditLogArgs),
    /// Explain a cron expression and list its next runs
    Cron(CronArgs),
    /// Print the OpenAPI document of the API
    Openapi(OpenapiArgs),
    /// Print the reference of all metrics, as a page of the documentation
    Metrics,
    /// Create schedules in a running service, and exit with 0 only if each of their ticks ran once
    ///
    /// Prints the numbers of missed, doubled and late ticks, and removes the schedules.
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Exit with 0 if a running service is ready; for containers
    Healthcheck(SettingArgs<OpsOnly>),
    /// Print the configuration in force, with comments; passwords are hidden
    Config(SettingArgs<AllSettings>),
}
