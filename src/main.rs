//! The binary: runs the command line of the library.

use std::process::ExitCode;

/// Jobs are constantly allocated on one thread and freed on another, which is slow with the system
/// allocator. SQLite uses this allocator, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    punctual::cli::run()
}
