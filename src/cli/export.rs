//! `punctual account export`: writes all data of an account as lines of JSON.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::operator::{accounts, operator, refused};
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output};
use crate::accounts::{AccountError, Accounts};
use crate::api::line;
use crate::domain::audit::Action;
use crate::store::Account;

/// An account to export.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The name of the account
    name: String,
    /// The file to create, which must not exist; only its owner can read it [default: print]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

pub(super) async fn run(args: &ExportArgs) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    let account = accounts.named(&args.name).await.map_err(refused)?;
    let Some(path) = &args.output else {
        write(&accounts, &account, &mut io::stdout()).await?;
        return Ok(());
    };
    let failed =
        |error: io::Error| CliError::failed(format!("cannot write {}: {error}", path.display()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(failed)?;
    let written = write(&accounts, &account, &mut file).await;
    let lines = written.inspect_err(|_| forget(path))?;
    file.sync_all().map_err(failed)?;
    output::print(&format!("{lines} lines are in {}\n", path.display()))
}

/// Removes the file of a failed export, because it is incomplete.
fn forget(path: &Path) {
    // An error here is ignored, because the error of the export itself is returned.
    let _ = fs::remove_file(path);
}

/// Writes the export and returns the number of lines. The reading is recorded in the audit log
/// first, so the export contains that entry as well.
async fn write(
    accounts: &Accounts,
    account: &Account,
    to: &mut (impl Write + Send),
) -> Result<u64, CliError> {
    let noted = accounts.note_reading(operator(), account, Action::AccountExported);
    noted.await.map_err(refused)?;
    let mut to = BufWriter::new(to);
    let mut sink = |exported| writeln!(to, "{}", line(exported)).map_err(AccountError::Unwritten);
    let lines = accounts.export(account, &mut sink).await.map_err(refused)?;
    to.flush().map_err(|error| refused(AccountError::Unwritten(error)))?;
    Ok(lines)
}
