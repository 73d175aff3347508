//! The address of the server, and the password from a file.

use std::path::Path;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, PgPool};

use crate::store::StoreErrorKind;
use crate::store::postgres::PostgresSettings;
use crate::store::sql::error::{SqlError, SqlResult};

/// Reads the password file again, for the connections that are opened from now on.
pub(in crate::store::postgres) fn renew_password(
    pool: &PgPool,
    settings: &PostgresSettings,
) -> SqlResult<()> {
    if settings.password_file.is_some() {
        let name = pool.connect_options().get_application_name().unwrap_or_default().to_owned();
        pool.set_connect_options(options(settings)?.application_name(&name));
    }
    Ok(())
}

/// Parses the URL, without the password file. PgBouncer rejects one of the settings that a
/// connection starts with, `extra_float_digits`. It is left out, because no value is transferred as
/// text.
pub(in crate::store::postgres) fn address(url: &str) -> SqlResult<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?.extra_float_digits(None);
    Ok(options.disable_statement_logging())
}

/// Returns the options of a connection, with the password from the file, if there is one.
pub(in crate::store::postgres) fn options(
    settings: &PostgresSettings,
) -> SqlResult<PgConnectOptions> {
    let options = address(&settings.url)?;
    match &settings.password_file {
        Some(path) => Ok(options.password(&password(path)?)),
        None => Ok(options),
    }
}

/// Returns the host and the port of a URL whose server may be reached over TLS.
pub(in crate::store::postgres) fn tls_server(url: &str) -> Option<(String, u16)> {
    let address = address(url).ok()?;
    let plain = matches!(address.get_ssl_mode(), PgSslMode::Disable | PgSslMode::Allow);
    let is_socket = address.get_socket().is_some() || address.get_host().starts_with('/');
    (!plain && !is_socket).then(|| (address.get_host().to_owned(), address.get_port()))
}

fn password(path: &Path) -> SqlResult<String> {
    let refused = |why: String| SqlError::new(StoreErrorKind::Refused, why);
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused(format!("cannot read the password file {}: {error}", path.display()))
    })?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(refused(format!("the password file {} is empty", path.display())));
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, PgConnection};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// The startup parameters that PgBouncer accepts by default,
    /// <https://www.pgbouncer.org/config.html> (`ignore_startup_parameters`).
    const TAKEN: [&str; 7] = [
        "user",
        "database",
        "application_name",
        "client_encoding",
        "DateStyle",
        "TimeZone",
        "standard_conforming_strings",
    ];

    #[tokio::test]
    async fn a_pooler_takes_what_a_connection_begins_with() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = server.local_addr().expect("bound").port();
        let url = format!("postgres://me@127.0.0.1:{port}/db?sslmode=disable");
        let options = address(&url).expect("an address").application_name("punctual api");
        let begun = async {
            let (mut client, _) = server.accept().await.expect("it comes");
            let length = client.read_i32().await.expect("the length");
            let mut rest = vec![0; usize::try_from(length).expect("positive") - 4];
            client.read_exact(&mut rest).await.expect("the rest");
            rest
        };
        let (rest, connected) = tokio::join!(begun, PgConnection::connect_with(&options));
        connected.map(drop).expect_err("no server answers");
        let text = String::from_utf8_lossy(&rest[4..]).into_owned();
        let names: Vec<_> = text.split('\0').step_by(2).filter(|name| !name.is_empty()).collect();
        assert!(names.len() >= 5, "{names:?}");
        assert!(names.iter().all(|name| TAKEN.contains(name)), "{names:?}");
    }
}
