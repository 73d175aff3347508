//! Access to the store, and the operator's identity for the audit log, for the commands on
//! accounts, keys and users.

use std::os::unix::fs::MetadataExt;

use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, store};
use crate::accounts::{AccountError, Accounts};
use crate::domain::audit::{Actor, Author, Origin, ShortName};
use crate::runtime::{Clock, Random};

/// Contains the numeric id of the user that logged in, even after `su` or `sudo`.
const LOGIN: &str = "/proc/self/loginuid";
/// The content of [`LOGIN`] for processes without a login.
const NO_USER: u32 = u32::MAX;
const USERS: &str = "/etc/passwd";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Opens the accounts. The clock is set to the time of the store, because the clock of this machine
/// may be wrong.
pub(super) async fn accounts(settings: &SettingArgs<StoreOnly>) -> Result<Accounts, CliError> {
    let (store, plans) = store::open_with_plans(&settings.sources()).await?;
    let clock = Clock::system();
    store.set_clock(&clock).await.map_err(CliError::failed)?;
    Ok(Accounts::new(store.shared(), clock, Random::system(), plans))
}

pub(super) fn refused(error: AccountError) -> CliError {
    match error {
        AccountError::UnusableName(_) | AccountError::NoSuchPlan(_) => CliError::usage(error),
        _ => CliError::failed(error),
    }
}

/// Returns the user that runs this command, by the name or number that the machine knows.
pub(super) fn operator() -> Author {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let login = std::fs::read_to_string(LOGIN).ok();
    let user = login.and_then(|text| text.trim().parse().ok()).filter(|user| *user != NO_USER);
    let user = user.or_else(|| std::fs::metadata("/proc/self").ok().map(|process| process.uid()));
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    let name = user.map(|user| name_of(user, &users)).unwrap_or_default();
    Author {
        actor: Actor::Operator(ShortName::new(&name)),
        origin: Origin::Host(ShortName::new(&host)),
    }
}

/// Returns the name in the list of users, or the number if it is not listed.
fn name_of(user: u32, users: &str) -> String {
    let number = user.to_string();
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&number.as_str()));
    found.map_or(number.clone(), |fields| fields[0].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_a_name_or_a_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(name_of(1000, users), "alice");
        assert_eq!(name_of(0, users), "root");
        assert_eq!(name_of(7, users), "7");
        assert_eq!(name_of(7, ""), "7");
    }
}
