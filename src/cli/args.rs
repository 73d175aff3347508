//! The commands and their arguments.

use clap::{Parser, Subcommand};

use super::accounts::{AccountCommand, KeyCommand};
use super::cron::CronArgs;
use super::settings::{All, OpsOnly, SettingArgs, StoreOnly};

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

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Apply the migrations that the store is missing
    Migrate(SettingArgs<StoreOnly>),
    /// Make or list accounts
    #[command(subcommand)]
    Account(AccountCommand),
    /// Make, list or revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Explain a cron expression and list its next runs
    Cron(CronArgs),
    /// Exit with 0 if a running service is ready; for containers
    Healthcheck(SettingArgs<OpsOnly>),
    /// Print the configuration in force, with comments; passwords are hidden
    Config(SettingArgs<All>),
}
