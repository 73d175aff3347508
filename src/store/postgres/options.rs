//! How to reach the server: its address, and the password from a file.

use std::path::Path;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgPool};

use super::Settings;
use super::error::{Fault, Outcome};
use crate::store::StoreErrorKind;

/// Reads the password file again, for the connections that are made from now on.
pub(super) fn renew_password(pool: &PgPool, settings: &Settings) -> Outcome<()> {
    if settings.password_file.is_some() {
        let name = pool.connect_options().get_application_name().unwrap_or_default().to_owned();
        pool.set_connect_options(options(settings)?.application_name(&name));
    }
    Ok(())
}

/// Where the server is, and who asks, without what is in the password file.
pub(super) fn address(url: &str) -> Outcome<PgConnectOptions> {
    Ok(PgConnectOptions::from_str(url)?.disable_statement_logging())
}

/// How to reach the server.
pub(super) fn options(settings: &Settings) -> Outcome<PgConnectOptions> {
    let options = address(&settings.url)?;
    match &settings.password_file {
        Some(path) => Ok(options.password(&password(path)?)),
        None => Ok(options),
    }
}

fn password(path: &Path) -> Outcome<String> {
    let refused = |why: String| Fault::new(StoreErrorKind::Refused, why);
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused(format!("cannot read the password file {}: {error}", path.display()))
    })?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(refused(format!("the password file {} is empty", path.display())));
    }
    Ok(password.to_owned())
}
