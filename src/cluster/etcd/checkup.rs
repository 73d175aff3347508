//! Whether etcd fits what is kept in it. Only a key of its own is written, with a lease that ends
//! soon, and removed again.

use std::time::Duration;

use etcd_client::PutOptions;
use futures_util::future::join_all;

use super::failure::Failure;
use super::line::{DELETE, GRANT, PUT, REVOKE, STATUS, answer, connect, written};
use super::look::{Seen, look};
use super::settings::ServerSettings;
use super::view::Keys;
use crate::domain::finding::Finding;
use crate::runtime::Clock;

/// The oldest version that is known to work.
const OLDEST: (u32, u32) = (3, 4);
/// Leases of some seconds are renewed by writes of this kind.
const SLOW: Duration = Duration::from_millis(250);
/// How long what is written to try rights is kept if it cannot be removed, in seconds.
const TRIAL_SECONDS: i64 = 10;
/// With fewer members nobody may be away.
const MEMBERS: usize = 3;

/// What was found, and who is there.
#[derive(Debug)]
pub struct Inspected {
    /// One for each thing that was checked.
    pub findings: Vec<Finding>,
    /// The replicas, if a server tells.
    pub seen: Option<Seen>,
}

/// Asks all servers of `settings`.
pub async fn check_up(settings: &ServerSettings, clock: &Clock) -> Inspected {
    let turns = 0..settings.endpoints.len();
    let (servers, seen) = tokio::join!(
        join_all(turns.map(|turn| server(settings, turn, clock))),
        look(settings, clock)
    );
    let answering = servers.iter().filter(|told| told.is_ok()).count();
    // The others do while one is away, if they are the majority.
    let are_enough = answering * 2 > servers.len();
    let mut findings = Vec::new();
    for (told, endpoint) in servers.into_iter().zip(&settings.endpoints) {
        match told {
            Ok(of_server) => findings.extend(of_server),
            Err(failure) if are_enough => {
                findings.push(Finding::warning(format!("{endpoint}: {failure}")));
            }
            Err(failure) => findings.push(Finding::failure(format!("{endpoint}: {failure}"))),
        }
    }
    if answering > 0 {
        findings.push(match try_rights(settings, clock).await {
            Ok(took) => of_speed(took),
            Err(failure) => Finding::failure(failure.to_string()),
        });
        if settings.endpoints.len() < MEMBERS {
            findings.push(Finding::warning(format!(
                "the URL names {} of its servers: name at least {MEMBERS}, so that one may be away",
                settings.endpoints.len()
            )));
        }
    }
    Inspected { findings, seen: seen.ok() }
}

/// What one server says of itself.
async fn server(
    settings: &ServerSettings,
    turn: usize,
    clock: &Clock,
) -> Result<Vec<Finding>, Failure> {
    let mut client = connect(clock, settings, turn).await?;
    let asked = clock.monotonic();
    let status = answer(clock, STATUS, client.status()).await?;
    let took = clock.monotonic().saturating_sub(asked);
    let endpoint = &settings.endpoints[turn];
    let mut findings = vec![of_version(endpoint, status.version(), took)];
    if status.leader() == 0 {
        let what = format!("{endpoint} has no leader: start the other members of etcd");
        findings.push(Finding::failure(what));
    }
    for error in status.errors() {
        findings.push(Finding::failure(format!(
            "{endpoint} raises an alarm ({error}): for NOSPACE compact and defragment it, then \
             disarm the alarm"
        )));
    }
    Ok(findings)
}

fn of_version(endpoint: &str, version: &str, took: Duration) -> Finding {
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let numbers = numbers.next().zip(numbers.next());
    let said = format!("etcd {version} at {endpoint}");
    match numbers {
        Some(numbers) if numbers < OLDEST => {
            Finding::failure(format!("{said} is too old: use 3.4 or later"))
        }
        _ => Finding::good(format!("{said} answers in {:.1} ms", took.as_secs_f64() * 1e3)),
    }
}

fn of_speed(took: Duration) -> Finding {
    let said =
        format!("the user has the rights that are needed, a write takes {} ms", took.as_millis());
    if took > SLOW {
        return Finding::warning(format!(
            "{said}: give etcd a faster disk, or leaders change without need"
        ));
    }
    Finding::good(said)
}

/// Writes under the prefix, as a replica does, by the first server that lets it.
async fn try_rights(settings: &ServerSettings, clock: &Clock) -> Result<Duration, Failure> {
    let mut failed = Failure::Ended;
    for turn in 0..settings.endpoints.len() {
        match try_at(settings, turn, clock).await {
            Ok(took) => return Ok(took),
            Err(failure) => failed = failure,
        }
    }
    Err(failed)
}

async fn try_at(
    settings: &ServerSettings,
    turn: usize,
    clock: &Clock,
) -> Result<Duration, Failure> {
    let key = Keys::new(&settings.prefix).trial();
    let mut client = connect(clock, settings, turn).await?;
    let lease = written(clock, GRANT, client.lease_grant(TRIAL_SECONDS, None)).await?.id();
    let begun = clock.monotonic();
    let options = PutOptions::new().with_lease(lease);
    written(clock, PUT, client.put(key.clone(), "", Some(options))).await?;
    let took = clock.monotonic().saturating_sub(begun);
    written(clock, DELETE, client.delete(key, None)).await?;
    written(clock, REVOKE, client.lease_revoke(lease)).await?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn old_and_slow_servers_are_told() {
        let grade = |version| of_version("http://a:1", version, Duration::ZERO).grade;
        assert_eq!(grade("3.3.27"), Grade::Failure);
        assert_eq!(grade("3.4.0"), Grade::Good);
        assert_eq!(grade("4.0.0-rc.1"), Grade::Good);
        assert_eq!(of_speed(SLOW * 2).grade, Grade::Warning);
    }
}
