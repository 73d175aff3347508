//! The profile of a benchmark's build.

use std::path::Path;

/// Prints the profile that this benchmark and the program that it starts were built with.
///
/// `cargo bench` builds with `bench`, whose folder is named `release`. Every other profile that
/// `--profile` selects has a folder of its own name.
pub fn print_profile() {
    let folder = Path::new(env!("CARGO_BIN_EXE_punctual")).parent().and_then(Path::file_name);
    let folder = folder.expect("cargo names it").to_string_lossy();
    println!("profile: {}", if folder == "release" { "bench" } else { &folder });
}
