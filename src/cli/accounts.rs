//! `punctual account` and `punctual key`: the operator commands on accounts and their keys.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::deletion::{self, DeletionArgs};
use super::duration::parse_duration;
use super::export::{self, ExportArgs};
use super::operator::{accounts, operator, refused};
use super::settings::{SettingArgs, StoreOnly};
use super::users::{self, MemberCommand};
use super::{CliError, output};
use crate::accounts::{AccountError, AccountOverview, KeyRequest};
use crate::config::load_part;
use crate::domain::key::{KeyRecord, MAX_KEYS, Scope};
use crate::domain::{KeyId, Timestamp};
use crate::store::Account;

/// The commands on accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account and print its id
    Create {
        /// The name of the account, which must be unique
        name: String,
        /// The plan, which limits the account; plans are defined in the configuration file
        /// [default: accounts.plan]
        #[arg(long, value_name = "PLAN")]
        plan: Option<String>,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// List all accounts
    List {
        /// List deleted accounts instead, with the author and the end of each deletion
        #[arg(long)]
        deleted: bool,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Show an account, its plan, and its usage of the plan's limits
    Show(NamedAccount),
    /// Change the plan of an account; existing data beyond the new limits stays
    SetPlan {
        /// The name of the account
        name: String,
        /// The name of the plan
        plan: String,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Suspend an account: its schedules do not fire, and its data is read-only
    Suspend(NamedAccount),
    /// Resume a suspended account; missed ticks are not run
    Resume(NamedAccount),
    /// Export all data of an account, as lines of JSON
    ///
    /// Each line is an object with a `kind`, such as account, member, invitation, key, schedule,
    /// version, job, skip or audit. Schedules, jobs, skips and audit entries have the form of the
    /// API, with headers and bodies in clear text. Changes during the export may or may not be
    /// included: suspend the account first for a consistent export.
    Export(ExportArgs),
    /// Delete an account and all its data
    ///
    /// Asks for its name again, unless --yes is given. Its keys and schedules stop working at once,
    /// and its users lose access. A server then removes the data in small batches. This command
    /// shows the progress, and can be stopped without stopping the deletion.
    Delete(DeletionArgs),
    /// The commands on the members of an account.
    #[command(flatten)]
    Member(MemberCommand),
}

/// An account by its name.
#[derive(Args, Debug)]
pub struct NamedAccount {
    /// The name of the account
    name: String,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

/// The commands on keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it; it cannot be shown again
    Create(NewKeyArgs),
    /// List the keys of an account, newest first
    List {
        /// The name of the account
        #[arg(long, value_name = "NAME")]
        account: String,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Create a key that replaces another one, and print it; it cannot be shown again
    ///
    /// The new key has the name, the scope and the lifetime of the old one. The old one works until
    /// the overlap ends.
    Rotate {
        /// The id of the old key, as `punctual key list` shows it
        #[arg(value_name = "KEY_ID", value_parser = key_id)]
        id: KeyId,
        /// The time for which both keys work, such as 24h or 15m
        #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = parse_duration)]
        overlap: Duration,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Revoke a key permanently
    Revoke {
        /// The id of the key, as `punctual key list` shows it
        #[arg(value_name = "KEY_ID", value_parser = key_id)]
        id: KeyId,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
}

/// The key to create.
#[derive(Args, Debug)]
pub struct NewKeyArgs {
    /// The name of its account
    #[arg(long, value_name = "NAME")]
    account: String,
    /// The name of the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    name: String,
    /// The scope of the key; write includes read
    #[arg(long, default_value = "write", value_parser = scopes())]
    scope: Scope,
    /// The lifetime of the key, such as 30d, 12h, 15m or 90s [default: unlimited]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

fn scopes() -> impl TypedValueParser<Value = Scope> {
    let names = Scope::ALL.iter().map(|scope| scope.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Scope>())
}

fn key_id(text: &str) -> Result<KeyId, String> {
    let allowed = |_| "must be an id from `punctual key list`, such as key_01K…".to_owned();
    text.parse().map_err(allowed)
}

pub(super) async fn run_account(command: &AccountCommand) -> Result<(), CliError> {
    match command {
        AccountCommand::Create { name, plan, settings } => {
            let accounts = accounts(settings).await?;
            let plan = match plan {
                Some(plan) => plan.clone(),
                None => load_part(&settings.sources())?.config.users.plan,
            };
            let account = accounts.create(operator(), name, &plan).await.map_err(refused)?;
            output::print(&format!("{}\n", account.id))
        }
        AccountCommand::List { deleted: true, settings } => deletion::list(settings).await,
        AccountCommand::List { deleted: false, settings } => {
            let accounts = accounts(settings).await?.list().await.map_err(refused)?;
            let rows: Vec<_> = accounts.iter().map(account_row).collect();
            output::print(&output::table(["ID", "NAME", "CREATED", "PLAN", "STATE"], &rows))
        }
        AccountCommand::Show(NamedAccount { name, settings }) => show(name, settings).await,
        AccountCommand::SetPlan { name, plan, settings } => {
            let accounts = accounts(settings).await?;
            let account = accounts.named(name).await.map_err(refused)?;
            accounts.set_plan(operator(), &account, plan).await.map_err(refused)?;
            output::print(&format!("{name} is on the plan {plan}\n"))
        }
        AccountCommand::Suspend(account) => set_suspended(account, true).await,
        AccountCommand::Resume(account) => set_suspended(account, false).await,
        AccountCommand::Export(args) => export::run(args).await,
        AccountCommand::Delete(args) => deletion::run(args).await,
        AccountCommand::Member(command) => users::run_member(command).await,
    }
}

fn account_row(account: &Account) -> [String; 5] {
    let state = if account.suspended_at.is_some() { "suspended" } else { "active" };
    let (id, created) = (account.id.to_string(), account.created_at.to_string());
    [id, account.name.clone(), created, account.plan.clone(), state.to_owned()]
}

async fn set_suspended(
    NamedAccount { name, settings }: &NamedAccount,
    suspended: bool,
) -> Result<(), CliError> {
    let accounts = accounts(settings).await?;
    let account = accounts.named(name).await.map_err(refused)?;
    accounts.set_suspended(operator(), &account, suspended).await.map_err(refused)?;
    output::print(&match suspended {
        true => format!("{name} is suspended; none of its schedules fires any more\n"),
        false => format!("{name} is active again; ticks that are due from now on fire\n"),
    })
}

async fn show(name: &str, settings: &SettingArgs<StoreOnly>) -> Result<(), CliError> {
    let accounts = accounts(settings).await?;
    let account = accounts.named(name).await.map_err(refused)?;
    let overview = accounts.overview(account.id).await.map_err(refused)?;
    let gone = || refused(AccountError::NoSuchAccount(name.to_owned()));
    let overview = overview.ok_or_else(gone)?;
    let exhausted_at = overview.quota_exhausted_at();
    let AccountOverview { account, plan, usage, jobs_this_month: jobs } = overview;
    let of =
        |most: Option<u64>| most.map_or_else(|| "no limit".to_owned(), |most| most.to_string());
    let row = |what: &str, used: u64, most| [what.to_owned(), used.to_string(), of(most)];
    let rows = [
        row("schedules", usage.schedules, plan.schedules),
        row("keys", usage.keys, Some(MAX_KEYS)),
        row("jobs this month", jobs, plan.jobs_per_month),
    ];
    let suspended = account.suspended_at.map_or_else(String::new, |at| format!(", suspended {at}"));
    let exhausted = exhausted_at.map_or_else(String::new, |at| format!(", quota used up {at}"));
    let (id, name, plan) = (account.id, account.name, account.plan);
    let table = output::table(["WHAT", "USED", "LIMIT"], &rows);
    output::print(&format!("{id}  {name}  plan {plan}{suspended}{exhausted}\n\n{table}"))
}

pub(super) async fn run_key(command: &KeyCommand) -> Result<(), CliError> {
    match command {
        KeyCommand::Create(args) => create_key(args).await,
        KeyCommand::List { account, settings } => {
            let accounts = accounts(settings).await?;
            let account = accounts.named(account).await.map_err(refused)?;
            let keys = accounts.keys(&account).await.map_err(refused)?;
            output::print(&key_table(&keys, accounts.now()))
        }
        KeyCommand::Rotate { id, overlap, settings } => {
            let accounts = accounts(settings).await?;
            let key = accounts.rotate_key(operator(), *id, *overlap).await.map_err(refused)?;
            output::print(&format!("{}\n", key.reveal()))
        }
        KeyCommand::Revoke { id, settings } => {
            accounts(settings).await?.revoke_key(operator(), *id).await.map_err(refused)?;
            output::print(&format!("{id} is revoked; servers refuse it within 5 seconds\n"))
        }
    }
}

async fn create_key(args: &NewKeyArgs) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    let account = accounts.named(&args.account).await.map_err(refused)?;
    let (name, scope, expires_in) = (args.name.clone(), args.scope, args.expires_in);
    let request = KeyRequest { name, scope, expires_in };
    let key = accounts.create_key(operator(), &account, &request).await.map_err(refused)?;
    output::print(&format!("{}\n", key.reveal()))
}

fn key_table(keys: &[KeyRecord], now: Timestamp) -> String {
    let row = |key: &KeyRecord| {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => "revoked",
            (None, Some(expires_at)) if expires_at <= now => "expired",
            _ => "active",
        };
        let expires = key.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let (id, created) = (key.id.to_string(), key.created_at.to_string());
        let by = key.created_by.clone().unwrap_or_default();
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let (name, scope, state) = (key.name.clone(), key.scope.to_string(), state.to_owned());
        [id, name, scope, created, expires, state, by, used]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    output::table(["ID", "NAME", "SCOPE", "CREATED", "EXPIRES", "STATE", "BY", "LAST USED"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_key_is_shown() {
        let (then, now) = (Timestamp::from_millis(1_000), Timestamp::from_millis(2_000));
        let key = |expires_at, revoked_at| KeyRecord {
            id: KeyId::new(then, 1),
            name: "a".to_owned(),
            scope: Scope::Read,
            created_at: then,
            created_by: Some("operator:root".to_owned()),
            expires_at,
            revoked_at,
            last_used_at: revoked_at,
        };
        let keys = [key(None, None), key(Some(now), None), key(Some(now), Some(then))];
        let text = key_table(&keys, now);
        let states: Vec<_> =
            text.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
        assert_eq!(states, ["STATE", "active", "expired", "revoked"]);
    }
}
