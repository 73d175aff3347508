//! Checks that a server fits what the queue keeps on it. Writes only a key of its own, for a
//! moment.

use std::error::Error;
use std::time::Duration;

use redis::{Script, Value};

use super::RedisSettings;
use super::check::{OLDEST, ask, major, ping};
use super::server::{LentConnection, RedisServer};
use crate::domain::finding::Finding;
use crate::queue::{QueueError, Result};
use crate::runtime::Clock;

/// The number of round trips that are measured. The fastest one says most.
const QUESTIONS: u32 = 5;
/// The round trip above which a server is slow: a job takes two of them.
const SLOW: Duration = Duration::from_millis(10);

/// Checks the server of `settings`.
pub async fn check_up(settings: &RedisSettings, clock: &Clock) -> Vec<Finding> {
    match check_server(settings, clock).await {
        Ok(findings) => findings,
        Err(error) => vec![Finding::failure(reason(&error))],
    }
}

async fn check_server(settings: &RedisSettings, clock: &Clock) -> Result<Vec<Finding>> {
    let server = RedisServer::new(settings, clock.clone())?;
    let mut round_trip = Duration::MAX;
    for _ in 0..QUESTIONS {
        let asked = clock.monotonic();
        ping(&server).await?;
        round_trip = round_trip.min(clock.monotonic().saturating_sub(asked));
    }
    let lent = server.connect("checkup").await?;
    let mut findings = match versions(&lent).await {
        Ok(findings) => findings,
        Err(error) => vec![not_reported("its version", &error)],
    };
    findings.push(of_speed(round_trip));
    findings.push(match try_rights(&lent).await {
        Ok(()) => Finding::good("the user has the rights that are needed"),
        Err(error) => Finding::failure(reason(&error)),
    });
    match memory(&lent).await {
        Ok(answer) => findings.extend(answer),
        Err(error) => findings.push(not_reported("its maxmemory-policy", &error)),
    }
    Ok(findings)
}

/// Returns the reason without the name of the operation, because a checkup is no operation of the
/// service.
fn reason(error: &QueueError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn not_reported(what: &str, error: &QueueError) -> Finding {
    Finding::warning(format!("the server does not report {what}: {}", reason(error)))
}

async fn versions(lent: &LentConnection<'_>) -> Result<Vec<Finding>> {
    let answer = ask(lent, "redis_version").await?;
    Ok(answer
        .iter()
        .map(|version| match version {
            Some(version) if major(version).is_some_and(|major| major < OLDEST) => {
                let what = format!("Redis {version} is too old: use Redis 6 or later, or Valkey");
                Finding::failure(what)
            }
            Some(version) => Finding::good(format!("Redis {version}")),
            None => Finding::warning("the server reports no version: it must be 6 or later"),
        })
        .collect())
}

fn of_speed(round_trip: Duration) -> Finding {
    let took = format!("a round trip takes {:.1} ms", round_trip.as_secs_f64() * 1e3);
    if round_trip > SLOW {
        return Finding::warning(format!(
            "{took}, and a job takes several of them: put replicas and server into one region"
        ));
    }
    Finding::good(took)
}

/// Runs the scripts' commands on a key that nothing else uses, and publishes to a channel without
/// subscribers.
async fn try_rights(lent: &LentConnection<'_>) -> Result<()> {
    let key = &*lent.server.keys.trial();
    let script = Script::new(include_str!("scripts/checkup.lua"));
    lent.run::<()>(&script.key(key)).await?;
    // The commands that are run without a script.
    for command in
        [&["SADD", key, "a"][..], &["SPOP", key], &["UNLINK", key], &["PUBLISH", key, ""]]
    {
        lent.query::<Value>(redis::cmd(command[0]).arg(&command[1..])).await?;
    }
    Ok(())
}

/// Checks the eviction policy that applies when the memory is used up, and the memory that is left.
async fn memory(lent: &LentConnection<'_>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for policy in ask(lent, "maxmemory_policy").await? {
        findings.push(match policy.as_deref() {
            Some("noeviction") => Finding::good("maxmemory-policy is noeviction"),
            Some(policy) => Finding::warning(format!(
                "maxmemory-policy is {policy}: set it to noeviction, or ticks and jobs are late when \
                 the memory is used up"
            )),
            None => Finding::warning("the server does not report its maxmemory-policy: it must be noeviction"),
        });
    }
    let bytes = async |field| -> Result<u64> {
        // In a cluster, the node with the highest value counts.
        let answer = ask(lent, field).await?;
        Ok(answer.iter().flatten().filter_map(|bytes| bytes.parse().ok()).max().unwrap_or(0))
    };
    findings.push(of_memory(bytes("used_memory").await?, bytes("maxmemory").await?));
    Ok(findings)
}

fn of_memory(used: u64, most: u64) -> Finding {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    if most == 0 {
        return Finding::good(format!("it uses {} MB, without a limit", megabytes(used)));
    }
    let said = format!("it uses {} of {} MB", megabytes(used), megabytes(most));
    // A million schedules take 128 MB, and waiting jobs come in bursts.
    if used > most / 10 * 8 {
        let what = format!("{said}: raise maxmemory, or due ticks and jobs are late");
        return Finding::warning(what);
    }
    Finding::good(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn little_memory_is_reported() {
        assert_eq!(of_memory(5_000_000, 0).grade, Grade::Good);
        assert_eq!(of_memory(80_000_000, 100_000_000).grade, Grade::Good);
        let full = of_memory(80_000_001, 100_000_000);
        assert_eq!(full.grade, Grade::Warning);
        assert!(full.text.starts_with("it uses 81 of 100 MB: raise maxmemory"), "{}", full.text);
        assert_eq!(of_speed(SLOW * 2).grade, Grade::Warning);
    }
}
