//! `punctual account` and `punctual key`: what operators do with accounts and their keys.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::operator::operator;
use super::settings::{SettingArgs, StoreOnly};
use super::span::parse_span;
use super::{CliError, output, store};
use crate::accounts::{AccountError, Accounts, KeyRequest};
use crate::domain::key::{KeyRecord, Scope};
use crate::domain::{KeyId, Timestamp};
use crate::runtime::{Clock, Random};

/// What to do with accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account and print its id
    Create {
        /// What to call it; no two accounts have the same name
        name: String,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// List all accounts
    List(SettingArgs<StoreOnly>),
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it; it cannot be shown again
    Create(NewKeyArgs),
    /// List the keys of an account, newest first
    List {
        /// The name of the account
        #[arg(long, value_name = "NAME")]
        account: String,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Make a new key in the place of one, and print it; it cannot be shown again
    ///
    /// It has the name, the scope and as much time as the old one had. The old one works until the
    /// overlap is over.
    Rotate {
        /// The id of the old one, as `punctual key list` shows it
        #[arg(value_name = "KEY_ID", value_parser = key_id)]
        id: KeyId,
        /// How long both keys work, such as 24h or 15m
        #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = parse_span)]
        overlap: Duration,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Revoke a key for good
    Revoke {
        /// Its id, as `punctual key list` shows it
        #[arg(value_name = "KEY_ID", value_parser = key_id)]
        id: KeyId,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
}

/// The key to make.
#[derive(Args, Debug)]
pub struct NewKeyArgs {
    /// The name of the account it opens
    #[arg(long, value_name = "NAME")]
    account: String,
    /// What to call the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    name: String,
    /// What it may do; write includes read
    #[arg(long, default_value = "write", value_parser = scopes())]
    scope: Scope,
    /// How long it works, such as 30d, 12h, 15m or 90s [default: for ever]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

fn scopes() -> impl TypedValueParser<Value = Scope> {
    let names = Scope::ALL.iter().map(|scope| scope.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Scope>())
}

fn key_id(text: &str) -> Result<KeyId, String> {
    let allowed = |_| "take an id that `punctual key list` shows, such as key_01K…".to_owned();
    text.parse().map_err(allowed)
}

pub(super) async fn run_account(command: &AccountCommand) -> Result<(), CliError> {
    match command {
        AccountCommand::Create { name, settings } => {
            let account =
                accounts(settings).await?.create(operator(), name).await.map_err(refused)?;
            output::print(&format!("{}\n", account.id))
        }
        AccountCommand::List(settings) => {
            let accounts = accounts(settings).await?.list().await.map_err(refused)?;
            let row = |account: &crate::store::Account| {
                [account.id.to_string(), account.name.clone(), account.created_at.to_string()]
            };
            let rows: Vec<_> = accounts.iter().map(row).collect();
            output::print(&output::table(["ID", "NAME", "CREATED"], &rows))
        }
    }
}

pub(super) async fn run_key(command: &KeyCommand) -> Result<(), CliError> {
    match command {
        KeyCommand::Create(args) => create_key(args).await,
        KeyCommand::List { account, settings } => {
            let accounts = accounts(settings).await?;
            let account = accounts.named(account).await.map_err(refused)?;
            let keys = accounts.keys(&account).await.map_err(refused)?;
            output::print(&key_table(&keys, Clock::system().now()))
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
        [id, key.name.clone(), key.scope.to_string(), created, expires, state.to_owned(), by]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    output::table(["ID", "NAME", "SCOPE", "CREATED", "EXPIRES", "STATE", "BY"], &rows)
}

async fn accounts(settings: &SettingArgs<StoreOnly>) -> Result<Accounts, CliError> {
    let store = store::open(&settings.sources()).await?;
    Ok(Accounts::new(store.shared(), Clock::system(), Random::system()))
}

fn refused(error: AccountError) -> CliError {
    match error {
        AccountError::UnusableName(_) => CliError::usage(error),
        _ => CliError::failed(error),
    }
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
        };
        let keys = [key(None, None), key(Some(now), None), key(Some(now), Some(then))];
        let text = key_table(&keys, now);
        let states: Vec<_> =
            text.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
        assert_eq!(states, ["STATE", "active", "expired", "revoked"]);
    }
}
