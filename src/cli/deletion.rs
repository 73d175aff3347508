//! `punctual account delete`: deletes an account and shows the progress.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;

use super::operator::{accounts, operator, refused};
use super::progress::ProgressDisplay;
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output};
use crate::accounts::Accounts;
use crate::runtime::Clock;
use crate::store::{Account, DeletedAccount};

/// The interval at which the remaining rows are counted.
const EVERY: Duration = Duration::from_secs(1);
/// The time without progress after which the command warns that no server seems to run. Servers
/// look for deleted accounts every 5 seconds.
const NO_PROGRESS_WARNING_AFTER: Duration = Duration::from_secs(8);
/// The hint for an operator that does not wait.
const LATER: &str = "`punctual account list --deleted` shows when nothing is left.";

/// An account to delete.
#[derive(Args, Debug)]
pub struct DeletionArgs {
    /// The name of the account
    name: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Do not wait until a server has removed all data
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

pub(super) async fn run(args: &DeletionArgs) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    let account = accounts.named(&args.name).await.map_err(refused)?;
    if !args.yes {
        ask(&account)?;
    }
    accounts.delete(operator(), &account).await.map_err(refused)?;
    let name = &account.name;
    if args.no_wait {
        return output::print(&format!(
            "{name} is deleted: it cannot be read, changed or run. Servers remove its rows. {LATER}\n"
        ));
    }
    output::complain(&format!("{name} is deleted; a server removes what it had"));
    tokio::select! {
        waited = wait(&accounts, &account) => {
            let rows = waited?;
            output::print(&format!("{name} is deleted, and its {rows} rows are gone\n"))
        }
        // Ctrl-C ends only the waiting. If Ctrl-C cannot be received here, the waiting continues.
        Ok(()) = tokio::signal::ctrl_c() => {
            output::print(&format!("{name} is deleted; servers remove the rest. {LATER}\n"))
        }
    }
}

/// Asks for the name again, because the deletion cannot be undone.
fn ask(account: &Account) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage("no terminal to ask on: add --yes to delete the account"));
    }
    let mut stderr = std::io::stderr().lock();
    let prompt = "This deletes the account and everything it has, for good. Type its name: ";
    let mut typed = String::new();
    let asked = stderr.write_all(prompt.as_bytes()).and_then(|()| stderr.flush());
    let read = asked.and_then(|()| std::io::stdin().read_line(&mut typed));
    read.map_err(|error| CliError::failed(format!("cannot ask for the name: {error}")))?;
    if typed.trim() == account.name {
        Ok(())
    } else {
        Err(CliError::failed("the name does not match: nothing was deleted"))
    }
}

/// Waits until no rows are left. Returns the total number of rows.
async fn wait(accounts: &Accounts, account: &Account) -> Result<u64, CliError> {
    let clock = Clock::system();
    let mut progress = ProgressDisplay::new(clock.clone());
    let left = async || {
        accounts.rows_left(account).await.map_err(|error| {
            let name = &account.name;
            CliError::failed(format!(
                "{name} is deleted and servers go on removing its rows, but the number of rows \
                 left cannot be read: {error}. {LATER}"
            ))
        })
    };
    let mut total = left().await?;
    let mut now = total;
    let mut still_since = Some(clock.monotonic());
    while now > 0 {
        // The total can grow: the count is capped, and work that was under way may still write
        // rows.
        total = total.max(now);
        progress.show("removing", total - now, total);
        if still_since.is_some_and(|since| clock.monotonic() - since >= NO_PROGRESS_WARNING_AFTER) {
            output::complain(
                "nothing is being removed: no server seems to run. The removal continues as soon \
                 as a server runs (`punctual serve`); Ctrl-C ends only the waiting",
            );
            still_since = None;
        }
        clock.sleep(EVERY).await;
        let before = std::mem::replace(&mut now, left().await?);
        if now < before {
            still_since = Some(clock.monotonic());
        }
    }
    progress.clear();
    Ok(total)
}

pub(super) async fn list(settings: &SettingArgs<StoreOnly>) -> Result<(), CliError> {
    let deleted = accounts(settings).await?.deleted().await.map_err(refused)?;
    let row = |account: &DeletedAccount| {
        let gone = account.gone_at.map_or_else(|| "not yet".to_owned(), |at| at.to_string());
        let (id, deleted) = (account.id.to_string(), account.deleted_at.to_string());
        let (by, from) = (account.actor.clone(), account.origin.clone());
        [id, account.name.clone(), deleted, by, from, gone]
    };
    let rows: Vec<_> = deleted.iter().map(row).collect();
    output::print(&output::table(["ID", "NAME", "DELETED", "BY", "FROM", "GONE"], &rows))
}
