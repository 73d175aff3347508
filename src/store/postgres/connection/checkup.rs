//! Checks that a server and its database suit this binary and its configuration. Changes nothing.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::timeout;

use super::options::options;
use super::version::{OLDEST_SERVER, incompatibility};
use crate::domain::finding::Finding;
use crate::runtime::Clock;
use crate::store::postgres::PostgresSettings;
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::error::{SqlError, SqlResult};

/// The timeout of connecting, and then of all queries together.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of queries for the server's time. The fastest answer is the most accurate one.
const QUESTIONS: u32 = 5;
/// Slower round trips give a warning, because a job takes three of them.
const SLOW: Duration = Duration::from_millis(10);
/// A larger difference between the two clocks gives a warning.
const APART_MS: u64 = 500;
/// The `max_locks_per_transaction` that docs/cluster.md asks for: each day of history is a table.
const LOCKS: i64 = 256;

const SETUP: &str = "
    SELECT current_setting('max_connections')::bigint AS connections,
           current_setting('superuser_reserved_connections')::bigint AS reserved,
           current_setting('max_locks_per_transaction')::bigint AS locks,
           current_setting('fsync')::boolean AS fsync,
           pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only,
           coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
           (SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
              AND coalesce(application_name, '') NOT LIKE 'punctual %') AS others,
           (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
              AND NOT relispartition AND NOT pg_has_role(relowner, 'USAGE')) AS foreign_tables,
           pg_database_size(current_database()) AS bytes";

struct ServerSetup {
    connections: i64,
    reserved: i64,
    locks: i64,
    fsync: bool,
    read_only: bool,
    may_create: bool,
    /// Connections of other programs.
    others: i64,
    /// Tables that the user may not alter, because it does not own them.
    foreign_tables: Option<String>,
    bytes: i64,
}

read_rows! {
    ServerSetup {
        connections, reserved, locks, fsync, read_only, may_create, others, foreign_tables, bytes,
    }
}

/// The deployment that the server has to suit.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    /// The number of replicas.
    pub replicas: u32,
    /// `true` if the replicas apply missing migrations.
    pub migrate: bool,
}

/// Checks the server of `settings`.
pub async fn check_up(
    settings: &PostgresSettings,
    deployment: Deployment,
    clock: &Clock,
) -> Vec<Finding> {
    let asked = async {
        let options = options(settings)?;
        let connected = timeout(TIMEOUT, options.connect()).await;
        let mut connection = connected.map_err(|_| SqlError::no_answer())??;
        let asked = ask(&mut connection, settings, deployment, clock);
        let findings = timeout(TIMEOUT, asked).await.map_err(|_| SqlError::no_answer())?;
        connection.close().await?;
        findings
    };
    asked.await.unwrap_or_else(|error: SqlError| vec![Finding::failure(error.message)])
}

async fn ask(
    connection: &mut PgConnection,
    settings: &PostgresSettings,
    deployment: Deployment,
    clock: &Clock,
) -> SqlResult<Vec<Finding>> {
    let number = connection.server_version_num().unwrap_or(0);
    let version: String =
        sqlx::query_scalar("SHOW server_version").fetch_one(&mut *connection).await?;
    let (round_trip, ahead_ms) = time(connection, clock).await?;
    let setup: ServerSetup = sqlx::query_as(SETUP).fetch_one(&mut *connection).await?;
    let mut findings = vec![
        of_version(number, &version),
        of_speed(round_trip),
        of_clock(ahead_ms),
        of_rights(&setup),
        of_connections(&setup, settings, deployment.replicas),
    ];
    findings.extend(of_setup(&setup));
    findings.push(match incompatibility(connection).await {
        Ok(None) => Finding::good(format!("the tables are up to date, {}", size(setup.bytes))),
        Ok(Some(why)) if deployment.migrate => {
            Finding::good(format!("{why}; the first replica that starts does it"))
        }
        Ok(Some(why)) => Finding::failure(why),
        Err(error) => Finding::failure(error.message),
    });
    Ok(findings)
}

/// Returns the shortest of several round trips, and how many milliseconds the server's clock is
/// ahead of this machine's.
async fn time(connection: &mut PgConnection, clock: &Clock) -> SqlResult<(Duration, i64)> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..QUESTIONS {
        let asked = clock.monotonic();
        let server_us: i64 =
            sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
                .fetch_one(&mut *connection)
                .await?;
        let round_trip = clock.monotonic().saturating_sub(asked);
        let back_us = i64::try_from(round_trip.as_micros() / 2).unwrap_or(0);
        if round_trip < best.0 {
            best = (round_trip, (server_us + back_us - clock.machine_us()) / 1_000);
        }
    }
    Ok(best)
}

fn of_version(number: u32, version: &str) -> Finding {
    if number < OLDEST_SERVER {
        let what = format!("PostgreSQL {version} is too old: use 13 or later");
        return Finding::failure(what);
    }
    Finding::good(format!("PostgreSQL {version}"))
}

fn of_speed(round_trip: Duration) -> Finding {
    let took = format!("a round trip takes {:.1} ms", round_trip.as_secs_f64() * 1e3);
    if round_trip > SLOW {
        return Finding::warning(format!(
            "{took}, and each job takes three of them: put replicas and server into one region"
        ));
    }
    Finding::good(took)
}

fn of_clock(ahead_ms: i64) -> Finding {
    if ahead_ms.unsigned_abs() > APART_MS {
        let way = if ahead_ms > 0 { "behind" } else { "ahead of" };
        return Finding::warning(format!(
            "this machine's clock is {:.1} s {way} the server's, which schedules follow: synchronize \
             both by NTP",
            Duration::from_millis(ahead_ms.unsigned_abs()).as_secs_f64()
        ));
    }
    Finding::good(format!("the clocks are {} ms apart", ahead_ms.unsigned_abs()))
}

fn of_rights(setup: &ServerSetup) -> Finding {
    if setup.read_only {
        return Finding::failure(
            "the server is read-only: name the primary, not a replica that follows it",
        );
    }
    if let Some(tables) = &setup.foreign_tables {
        return Finding::failure(format!(
            "the user does not own all tables ({tables}): make it their owner by REASSIGN OWNED"
        ));
    }
    if !setup.may_create {
        return Finding::failure(
            "the user may not create tables, and each day needs new ones: let it own the database",
        );
    }
    Finding::good("the user may write and create tables")
}

/// Checks that all replicas find connections, and one more that replaces another during an upgrade.
fn of_connections(setup: &ServerSetup, settings: &PostgresSettings, replicas: u32) -> Finding {
    let PostgresSettings { api_connections, scheduler_connections, executor_connections, .. } =
        settings;
    let each = i64::from(api_connections + scheduler_connections + executor_connections);
    let replicas = i64::from(replicas);
    let (most, others) = (setup.connections - setup.reserved, setup.others);
    let said = format!(
        "max_connections gives {most}, others use {others}, {replicas} replicas open up to {} \
         ({each} each)",
        replicas * each
    );
    let need = replicas * each + others;
    let raise = |need: i64| {
        format!("{said}: set it to {} or lower store.*_connections", need + setup.reserved)
    };
    if need > most {
        Finding::failure(raise(need + each))
    } else if need + each > most {
        let why = format!("{}; an upgrade runs one replica more", raise(need + each));
        Finding::warning(why)
    } else {
        Finding::good(said)
    }
}

/// Checks settings that are usually right, and reports only those that are not.
fn of_setup(setup: &ServerSetup) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !setup.fsync {
        findings.push(Finding::warning(
            "fsync is off: a power failure of the server loses committed data; switch it on",
        ));
    }
    if setup.locks < LOCKS {
        findings.push(Finding::warning(format!(
            "max_locks_per_transaction is {}: set it to {LOCKS}, because each day of history is \
             a table",
            setup.locks
        )));
    }
    findings
}

fn size(bytes: i64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    fn setup(connections: i64) -> ServerSetup {
        ServerSetup {
            connections,
            reserved: 3,
            locks: 64,
            fsync: true,
            read_only: false,
            may_create: true,
            others: 2,
            foreign_tables: None,
            bytes: 0,
        }
    }

    #[test]
    fn connections_are_for_all_replicas_and_one_more() {
        let settings = PostgresSettings::new("postgres://h/d");
        // 3 replicas open 108 connections, a fourth makes it 144. Others have 2, and 3 are
        // reserved.
        for (connections, grade) in [
            (149, Grade::Good),
            (148, Grade::Warning),
            (113, Grade::Warning),
            (112, Grade::Failure),
        ] {
            let found = of_connections(&setup(connections), &settings, 3);
            assert_eq!(found.grade, grade, "{connections}: {}", found.text);
            let advice = found.text.contains("set it to 149");
            assert_eq!(advice, grade != Grade::Good, "{}", found.text);
        }
    }

    #[test]
    fn missing_rights_are_told_with_a_remedy() {
        assert_eq!(of_version(120_022, "12.22").grade, Grade::Failure);
        assert_eq!(of_version(130_000, "13.0").grade, Grade::Good);
        let read_only = of_rights(&ServerSetup { read_only: true, ..setup(100) });
        assert!(read_only.text.contains("name the primary"), "{}", read_only.text);
        let foreign = Some("jobs".to_owned());
        let foreign = of_rights(&ServerSetup { foreign_tables: foreign, ..setup(100) });
        assert_eq!((foreign.grade, foreign.text.contains("(jobs)")), (Grade::Failure, true));
        assert_eq!(of_speed(Duration::from_millis(11)).grade, Grade::Warning);
        assert_eq!(of_clock(-500).grade, Grade::Good);
        assert!(of_clock(-1_500).text.contains("1.5 s ahead of the server's"));
        assert!(of_clock(1_500).text.contains("1.5 s behind the server's"));
    }
}
