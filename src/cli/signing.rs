//! `punctual signing`: the operator commands on the secrets that sign an account's requests.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration::parse_duration;
use super::operator::{accounts, operator, refused};
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output};
use crate::domain::Timestamp;
use crate::domain::audit::Action;
use crate::store::KnownSecret;

/// The commands on signing secrets.
#[derive(Debug, Subcommand)]
pub enum SigningCommand {
    /// List the secrets of an account, newest first, without showing them
    List(OfAccount),
    /// Print the active secrets, newest first; receivers verify requests with them
    Show(OfAccount),
    /// Create a new secret; the old and the new one both sign until the overlap ends
    ///
    /// `punctual signing show` prints it. There are never more than two active secrets: if an
    /// earlier overlap is still running, its old secret ends at once.
    Rotate {
        #[command(flatten)]
        account: OfAccount,
        /// The time for which the old secret signs too, such as 24h or 15m
        #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = parse_duration)]
        overlap: Duration,
    },
}

/// The account whose secrets to use.
#[derive(Args, Debug)]
pub struct OfAccount {
    /// The name of the account
    #[arg(long = "account", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

impl OfAccount {
    /// Returns the secrets of the account and the current time. If the secrets will be `shown`, the
    /// reading is first recorded in the audit log.
    async fn secrets(&self, shown: bool) -> Result<(Vec<KnownSecret>, Timestamp), CliError> {
        let accounts = accounts(&self.settings).await?;
        let account = accounts.named(&self.name).await.map_err(refused)?;
        if shown {
            let noted = accounts.note_reading(operator(), &account, Action::SigningSecretsShown);
            noted.await.map_err(refused)?;
        }
        let secrets = accounts.signing_secrets(&account).await.map_err(refused)?;
        Ok((secrets, accounts.now()))
    }
}

pub(super) async fn run(command: &SigningCommand) -> Result<(), CliError> {
    match command {
        SigningCommand::List(account) => {
            let (secrets, now) = account.secrets(false).await?;
            output::print(&table(&secrets, now))
        }
        SigningCommand::Show(account) => {
            let (secrets, now) = account.secrets(true).await?;
            output::print(&revealed(&secrets, now)?)
        }
        SigningCommand::Rotate { account: OfAccount { name, settings }, overlap } => {
            let accounts = accounts(settings).await?;
            let account = accounts.named(name).await.map_err(refused)?;
            let rotated = accounts.rotate_signing_secret(operator(), &account, *overlap);
            let id = rotated.await.map_err(refused)?;
            output::print(&format!("{id} signs the requests of {name} from now on\n"))
        }
    }
}

fn is_over(secret: &KnownSecret, now: Timestamp) -> bool {
    secret.expires_at.is_some_and(|at| at <= now)
}

fn table(secrets: &[KnownSecret], now: Timestamp) -> String {
    let row = |secret: &KnownSecret| {
        let state = match secret.secret {
            _ if is_over(secret, now) => "expired",
            Some(_) => "signs",
            None => "unreadable",
        };
        let expires = secret.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        [secret.id.to_string(), secret.created_at.to_string(), expires, state.to_owned()]
    };
    let rows: Vec<_> = secrets.iter().map(row).collect();
    output::table(["ID", "CREATED", "EXPIRES", "STATE"], &rows)
}

/// Returns the secrets that sign, one per line.
fn revealed(secrets: &[KnownSecret], now: Timestamp) -> Result<String, CliError> {
    let mut lines = String::new();
    for KnownSecret { id, secret, .. } in secrets.iter().filter(|one| !is_over(one, now)) {
        let secret = secret.as_ref().ok_or_else(|| {
            CliError::failed(format!(
                "{id} cannot be decrypted, because it was damaged or moved, or its key is missing \
                 or replaced: give its key back in secrets.keys, or run `punctual signing rotate`"
            ))
        })?;
        lines.push_str(&secret.reveal());
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::SigningSecretId;
    use crate::domain::signing::SigningSecret;

    #[test]
    fn only_what_signs_is_revealed() {
        let (then, now) = (Timestamp::from_millis(1_000), Timestamp::from_millis(2_000));
        let secret = |byte: u8, expires_at| KnownSecret {
            id: SigningSecretId::new(then, byte.into()),
            secret: Some(SigningSecret::new(|bytes| bytes.fill(byte))),
            created_at: then,
            expires_at,
        };
        let mut secrets =
            [secret(1, None), secret(2, Some(Timestamp::from_millis(2_001))), secret(3, Some(now))];
        let text = revealed(&secrets, now).expect("readable");
        let shown: Vec<SigningSecret> =
            text.lines().map(|line| line.parse().expect(line)).collect();
        assert_eq!(
            shown,
            secrets[..2].iter().flat_map(|one| one.secret.clone()).collect::<Vec<_>>()
        );
        secrets[1].secret = None;
        let states = table(&secrets, now);
        assert!(!states.contains("whsec_"), "{states}");
        let states: Vec<_> =
            states.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(states, ["STATE", "signs", "unreadable", "expired"]);
        assert!(revealed(&secrets, now).is_err());
    }
}
