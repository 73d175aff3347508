//! What the commands on accounts, keys and users share.

use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, store};
use crate::accounts::{AccountError, Accounts};
use crate::runtime::{Clock, Random};

pub(super) async fn accounts(settings: &SettingArgs<StoreOnly>) -> Result<Accounts, CliError> {
    let (store, plans) = store::open_with_plans(&settings.sources()).await?;
    Ok(Accounts::new(store.shared(), Clock::system(), Random::system(), plans))
}

pub(super) fn refused(error: AccountError) -> CliError {
    match error {
        AccountError::UnusableName(_) | AccountError::NoSuchPlan(_) => CliError::usage(error),
        _ => CliError::failed(error),
    }
}
