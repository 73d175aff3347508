//! The command line: the arguments and the output of each command.
//!
//! Results go to standard output. Log lines, warnings and the `error: …` line of a failed command
//! go to standard error. The exit status is 2 if the command line or the configuration is wrong,
//! 130 if a signal interrupted the command, 1 if something else failed, and 0 otherwise. A reader
//! that closes the pipe early is not a failure.

mod accounts;
mod address;
mod args;
mod audit_log;
mod cluster;
mod config;
mod copy;
mod cron;
mod deletion;
mod dev;
mod doctor;
mod duration;
mod error;
mod export;
mod healthcheck;
mod metrics;
mod migrate;
mod openapi;
mod operator;
mod output;
mod progress;
mod restored;
mod secrets;
mod serve;
mod settings;
mod signing;
mod store;
mod users;
mod verify;
mod welcome;

use std::process::ExitCode;

use clap::Parser;

pub use args::{Cli, Command};
pub use error::CliError;
pub use welcome::{Welcome, welcome};

/// Parses the command line. For `--help`, `--version` and usage errors the process ends here.
pub fn parse() -> Cli {
    Cli::parse()
}

/// Runs a command to its end.
pub async fn run(cli: Cli) -> ExitCode {
    match execute(cli.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Prints the error and returns its exit code.
pub fn fail(error: &CliError) -> ExitCode {
    output::complain(&format!("error: {error}"));
    error.exit_code()
}

async fn execute(command: Command) -> Result<(), CliError> {
    match command {
        Command::Dev(settings) => dev::run(&settings.dev_sources()).await,
        Command::Serve(settings) => serve::run(&settings.sources()).await,
        Command::Migrate(settings) => migrate::run(&settings.sources()).await,
        Command::Cluster(args) => cluster::run(&args).await,
        Command::Doctor(args) => doctor::run(&args).await,
        Command::Copy(args) => copy::run(&args).await,
        Command::Restored(settings) => restored::run(&settings.sources()).await,
        Command::Account(command) => accounts::run_account(&command).await,
        Command::User(command) => users::run_user(&command).await,
        Command::Key(command) => accounts::run_key(&command).await,
        Command::Signing(command) => signing::run(&command).await,
        Command::Secrets(command) => secrets::run(&command).await,
        Command::AuditLog(args) => audit_log::run(&args).await,
        Command::Cron(args) => cron::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::Metrics => metrics::run(),
        Command::Verify(args) => verify::run(&args).await,
        Command::Healthcheck(settings) => healthcheck::run(&settings.sources()).await,
        Command::Config(settings) => config::run(&settings.sources()),
    }
}
