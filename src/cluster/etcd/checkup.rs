//! Checks that etcd is usable for the cluster. The check writes only a key of its own, with a short
//! lease, and deletes it again.

use std::time::Duration;

use etcd_client::PutOptions;
use futures_util::future::join_all;

use super::connection::{DELETE, GRANT, PUT, REVOKE, STATUS, answer, connect, written};
use super::failure::EtcdFailure;
use super::inspection::inspect;
use super::membership::EtcdKeys;
use super::settings::ServerSettings;
use crate::cluster::ClusterState;
use crate::domain::finding::Finding;
use crate::runtime::Clock;

/// The oldest version that is known to work.
const OLDEST: (u32, u32) = (3, 4);
/// A write that takes longer causes a warning: leases of a few seconds depend on fast writes.
const SLOW: Duration = Duration::from_millis(250);
/// The lease of the test key, in seconds. The key expires with it if it cannot be deleted.
const TRIAL_SECONDS: i64 = 10;
/// The minimum number of servers. With fewer, etcd does not survive the loss of one.
const MEMBERS: usize = 3;

/// The result of a check of etcd.
#[derive(Debug)]
pub struct EtcdCheckup {
    /// The findings, one for each check.
    pub findings: Vec<Finding>,
    /// The state of the cluster, if a server answers.
    pub seen: Option<ClusterState>,
}

/// Checks all servers of `settings`.
pub async fn check_up(settings: &ServerSettings, clock: &Clock) -> EtcdCheckup {
    let turns = 0..settings.endpoints.len();
    let (servers, seen) = tokio::join!(
        join_all(turns.map(|turn| server(settings, turn, clock))),
        inspect(settings, clock)
    );
    let answering = servers.iter().filter(|told| told.is_ok()).count();
    // A server that does not answer is only a warning while the majority does.
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
                "the URL names {} of its servers: name at least {MEMBERS}, so that one may fail",
                settings.endpoints.len()
            )));
        }
    }
    EtcdCheckup { findings, seen: seen.ok() }
}

/// Checks one server.
async fn server(
    settings: &ServerSettings,
    turn: usize,
    clock: &Clock,
) -> Result<Vec<Finding>, EtcdFailure> {
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
        format!("the user has the necessary permissions, a write takes {} ms", took.as_millis());
    if took > SLOW {
        return Finding::warning(format!(
            "{said}: give etcd a faster disk, or leaders will change without need"
        ));
    }
    Finding::good(said)
}

/// Writes under the prefix, as a replica does, with the first server that permits it. Returns the
/// duration of the write.
async fn try_rights(settings: &ServerSettings, clock: &Clock) -> Result<Duration, EtcdFailure> {
    let mut failed = EtcdFailure::Ended;
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
) -> Result<Duration, EtcdFailure> {
    let key = EtcdKeys::new(&settings.prefix).trial();
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
    fn old_and_slow_servers_are_reported() {
        let grade = |version| of_version("http://a:1", version, Duration::ZERO).grade;
        assert_eq!(grade("3.3.27"), Grade::Failure);
        assert_eq!(grade("3.4.0"), Grade::Good);
        assert_eq!(grade("4.0.0-rc.1"), Grade::Good);
        assert_eq!(of_speed(SLOW * 2).grade, Grade::Warning);
    }
}
