//! What the commands on accounts, keys and users share.

use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, store};
use crate::accounts::{AccountError, Accounts};
use crate::runtime::{Clock, Random};

pub(super) async fn accounts(settings: &SettingArgs<StoreOnly>) -> Result<Accounts, CliError> {
    let store = store::open(&settings.sources()).await?;
    Ok(Accounts::new(store.shared(), Clock::system(), Random::system()))
}

pub(super) fn refused(error: AccountError) -> CliError {
    match error {
        AccountError::UnusableName(_) => CliError::usage(error),
        _ => CliError::failed(error),
    }
}
