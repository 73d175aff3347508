//! The binary: hands the command line to the library.

use std::process::ExitCode;
use std::time::Duration;

use punctual::cli::{self, CliError};
use tokio::runtime::Builder;

/// Jobs are made on one thread and dropped on another all the time, which is what the system's
/// allocator is slow at. It serves SQLite too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long blocking calls that are still under way may hold up the end of the process.
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
