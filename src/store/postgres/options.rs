//! How to reach the server: its address, and the password from a file.

use std::path::Path;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgPool};

use super::Settings;
use super::error::{Fault, Outcome};
use crate::store::StoreErrorKind;

/// Reads the password file again, for the connections that are made from now on.
pub(super) fn renew_password(pool: &PgPool, settings: &Settings) {
    if settings.password_file.is_none() {
        return;
    }
    let name = pool.connect_options().get_application_name().unwrap_or_default().to_owned();
    match options(settings) {
        Ok(options) => pool.set_connect_options(options.application_name(&name)),
        Err(fault) => tracing::warn!(error = %fault, "the store's password cannot be read"),
    }
}

/// How to reach the server.
pub(super) fn options(settings: &Settings) -> Outcome<PgConnectOptions> {
    let options = PgConnectOptions::from_str(&settings.url)?.disable_statement_logging();
    match &settings.password_file {
        Some(path) => Ok(options.password(&password(path)?)),
        None => Ok(options),
    }
}

fn password(path: &Path) -> Outcome<String> {
    let refused = |why: String| Fault::new(StoreErrorKind::Incompatible, why);
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused(format!("cannot read the password file {}: {error}", path.display()))
    })?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(refused(format!("the password file {} is empty", path.display())));
    }
    Ok(password.to_owned())
}
