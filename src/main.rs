//! The binary: passes the command line to the library.

use std::process::ExitCode;
use std::time::Duration;

use punctual::cli::{self, CliError};
use tokio::runtime::Builder;

/// Jobs are constantly allocated on one thread and freed on another, which is slow with the system
/// allocator. SQLite uses this allocator, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The maximum time for which blocking calls that are still running delay the end of the process.
const LAST_CALLS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let command = cli::parse();
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let why = format!("cannot start the runtime: {error}");
            return cli::fail(&CliError::Failed(why));
        }
    };
    let code = runtime.block_on(cli::run(command));
    runtime.shutdown_timeout(LAST_CALLS);
    code
}
