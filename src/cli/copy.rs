//! `punctual copy`: moves an installation from one machine to a cluster.

use clap::Args;

use super::config::warn;
use super::progress::ProgressDisplay;
use super::settings::{CopyTarget, SettingArgs};
use super::{CliError, output};
use crate::app::{CopiedTable, CopyResult, copy};
use crate::config::{LoadedConfig, load_part};
use crate::runtime::{Clock, Random};

/// The source and the target of the copy.
#[derive(Args, Debug)]
pub struct CopyArgs {
    /// The store to copy: sqlite:PATH; no service may use it during the copy
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to copy into: postgres://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    settings: SettingArgs<CopyTarget>,
}

pub(super) async fn run(args: &CopyArgs) -> Result<(), CliError> {
    let (from, to) = (load_store(args, "--from", &args.from)?, load_store(args, "--to", &args.to)?);
    // Both configurations have the same warnings.
    warn(&to.warnings);
    let (from, to) = (from.config, to.config);
    let (clock, random) = (Clock::system(), Random::system());
    let mut display = ProgressDisplay::new(clock.clone());
    let copied = copy(&from, &to, &clock, &random, |progress| {
        display.show(progress.table.name(), progress.done, progress.total);
    })
    .await;
    display.clear();
    let CopyResult { tables, source_ticks, target_ticks } = copied.map_err(CliError::failed)?;
    output::print(&summary(&tables))?;
    let differing = tables.iter().filter(|table| table.source != table.target);
    let differing: Vec<_> = differing.map(|table| table.table.name()).collect();
    if !differing.is_empty() {
        return Err(CliError::failed(format!(
            "the numbers of rows differ in {}: copy again; replicas do not use {} before that",
            differing.join(", "),
            to.store
        )));
    }
    if source_ticks != target_ticks {
        return Err(CliError::failed(format!(
            "the next ticks differ, of {} schedules that are due in the source and {} in the target: \
             copy again; replicas do not use {} before that",
            source_ticks.schedules, target_ticks.schedules, to.store
        )));
    }
    output::print(&format!(
        "\nEverything is in {}, with {} shards; {} schedules kept their next ticks. Start the \
         replicas on it, and do not serve {} again.\n",
        to.store, to.shards, source_ticks.schedules, from.store
    ))
}

/// Loads the configuration, with the store at `url`.
fn load_store(args: &CopyArgs, option: &str, url: &str) -> Result<LoadedConfig, CliError> {
    let mut sources = args.settings.sources();
    sources.options.push(("store.url", url.to_owned()));
    load_part(&sources).map_err(|mistakes| CliError::usage(format!("{option}: {mistakes}")))
}

fn summary(tables: &[CopiedTable]) -> String {
    let row = |table: &CopiedTable| {
        let CopiedTable { table, source, target, written } = table;
        [table.name().to_owned(), source.to_string(), target.to_string(), written.to_string()]
    };
    let rows: Vec<_> = tables.iter().map(row).collect();
    output::table(["TABLE", "SOURCE", "TARGET", "WRITTEN"], &rows)
}
