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
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Builder;

pub use args::{Cli, Command};
pub use error::CliError;
pub use welcome::{Welcome, welcome};

/// The maximum time for which blocking calls that are still running delay the end of the process.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// Parses the command line and runs its command to the end. For `--help`, `--version` and usage
/// errors the process ends here.
///
/// The runtime is started here and not in `main`: the compiler would translate the code of all
/// commands for the binary, after the library and a second time.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return fail(&CliError::Failed(format!("cannot start the runtime: {error}")));
        }
    };
    let code = match runtime.block_on(execute(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    };
    runtime.shutdown_timeout(LAST_CALLS);
    code
}

/// Prints the error and returns its exit code.
fn fail(error: &CliError) -> ExitCode {
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
