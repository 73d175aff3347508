//! `punctual secrets`: the operator commands on the keys that encrypt secrets.

use std::collections::BTreeMap;

use clap::Subcommand;

use super::operator::operator;
use super::progress::ProgressDisplay;
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output, store};
use crate::app::new_key;
use crate::config::Sources;
use crate::domain::{AccountId, AuditId};
use crate::runtime::{Clock, Random};
use crate::store::{AuditContext, SealedTable, SharedStore};

/// The number of rows that are encrypted again in one transaction. Each can have a body of 256 KiB.
const ROWS: u32 = 50;

/// The commands on keys for secrets.
#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Generate a key and print it, in the form of secrets.keys and secrets.keys_file
    Generate,
    /// Encrypt all stored secrets with the first key
    ///
    /// Can be stopped at any time and run again, and can run beside servers if all of them already
    /// have the new key. Reports at the end which keys are no longer needed.
    Rotate {
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
        /// Give up the old keys even if some rows cannot be decrypted; these rows are lost
        #[arg(long)]
        abandon_unreadable: bool,
    },
}

pub(super) async fn run(command: &SecretsCommand) -> Result<(), CliError> {
    match command {
        SecretsCommand::Generate => {
            output::print(&format!("{}\n", *new_key(&Random::system()).reveal()))
        }
        SecretsCommand::Rotate { settings, abandon_unreadable } => {
            rotate(&settings.sources(), *abandon_unreadable).await
        }
    }
}

/// The result of a rotation.
#[derive(Default)]
struct ResealResult {
    sealed: u64,
    /// Rows that cannot be decrypted, by table and account.
    unreadable: BTreeMap<(&'static str, AccountId), u64>,
}

impl ResealResult {
    fn lost(&self) -> u64 {
        self.unreadable.values().sum()
    }

    /// Returns a line for each result: the rows that were encrypted and those that could not be
    /// decrypted.
    fn lines(&self) -> String {
        let mut lines = format!("{} rows were encrypted with the first key\n", self.sealed);
        for ((table, account), rows) in &self.unreadable {
            lines += &format!("{rows} rows of {table} of {account} cannot be decrypted\n");
        }
        lines
    }
}

async fn rotate(sources: &Sources, abandon: bool) -> Result<(), CliError> {
    let (open, clock) = (store::open(sources).await?, Clock::system());
    open.set_clock(&clock).await.map_err(CliError::failed)?;
    let store = open.shared();
    let total = store.stale_secrets().await.map_err(CliError::failed)?;
    let known = store.key_proofs().await.map_err(CliError::failed)?;
    if total > 0 || known.len() > 1 {
        let (now, bits) = (clock.now(), Random::system().bits());
        let audit_context =
            AuditContext { now, author: operator(), entry: AuditId::new(now, bits) };
        store.enter_rotation(&audit_context).await.map_err(CliError::failed)?;
    }
    let mut progress = ProgressDisplay::new(clock);
    let done = reseal(&store, total, &mut progress).await;
    progress.clear();
    let done = done?;
    let forgotten = store.forget_keys(abandon).await.map_err(CliError::failed)?;
    let left = store.key_proofs().await.map_err(CliError::failed)?;
    open.close().await;
    output::print(&done.lines())?;
    if done.lost() > 0 && !abandon {
        return Err(CliError::failed(
            "some rows cannot be decrypted, because they were damaged or moved, or their key is \
             missing or replaced: save the objects that they belong to again, and keep all keys \
             until then, or give the rows up with --abandon-unreadable",
        ));
    }
    if left.len() > 1 {
        return Err(CliError::failed(
            "a server wrote with another key in the meantime: give all servers the new key as \
             their first one, and run this again",
        ));
    }
    let said = match &forgotten[..] {
        [] => "No other key was in use.\n".to_owned(),
        old => format!("Not needed any more: {}. Remove them from secrets.keys.\n", old.join(", ")),
    };
    output::print(&said)
}

async fn reseal(
    store: &SharedStore,
    total: u64,
    progress: &mut ProgressDisplay,
) -> Result<ResealResult, CliError> {
    let mut done = ResealResult::default();
    for table in SealedTable::ALL {
        let mut after = [0; 16];
        loop {
            progress.show(table.name(), done.sealed + done.lost(), total);
            let resealed = store.reseal(table, after, ROWS).await.map_err(CliError::failed)?;
            done.sealed += resealed.sealed;
            for account in resealed.unreadable {
                *done.unreadable.entry((table.name(), account)).or_default() += 1;
            }
            match resealed.last {
                Some(last) => after = last,
                None => break,
            }
        }
    }
    Ok(done)
}
