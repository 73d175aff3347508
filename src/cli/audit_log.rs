//! `punctual audit-log`: lists the entries of the audit log.

use clap::Args;

use super::operator::{accounts, refused};
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output};
use crate::store::{AuditEntry, AuditQuery, INSTALLATION};

/// The changes to list.
#[derive(Args, Debug)]
pub struct AuditLogArgs {
    /// The name of an account [default: changes outside all accounts, such as to users without one]
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// The maximum number of changes
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

pub(super) async fn run(args: &AuditLogArgs) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    let account = match &args.account {
        Some(name) => accounts.named(name).await.map_err(refused)?.id,
        None => INSTALLATION,
    };
    let query = AuditQuery {
        from: None,
        to: None,
        actor: None,
        action: None,
        after: None,
        limit: args.count,
    };
    let page = accounts.audit_log(account, &query).await.map_err(refused)?;
    let row = |entry: &AuditEntry| {
        let AuditEntry { id, actor, action, object, origin } = entry.clone();
        [id.timestamp().to_string(), actor, action, object, origin]
    };
    let rows: Vec<_> = page.entries.iter().map(row).collect();
    output::print(&output::table(["AT", "BY", "ACTION", "OBJECT", "FROM"], &rows))
}
