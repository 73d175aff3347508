//! Creates the canary's account and schedules. The ids of the schedules are derived from the
//! shards, so replicas that create them at the same time create the same ones.

use super::{CanaryParts, HOSTS, PATH, account, write};
use crate::domain::plan::UNLIMITED;
use crate::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::{ScheduleId, Timestamp, VersionId};
use crate::queue::{OwnedSchedule, ShardChanges};
use crate::runtime::RunError;
use crate::store::{NewSchedule, NewVersion};

/// The name of the account.
const NAME: &str = "punctual-canary";
/// The maximum number of schedules. The canary must stay a small part of the service's load.
const MAX_SCHEDULES: u16 = 64;
/// The upper part of the schedules' ids. The lower 64 bits hold the shard's number, so that
/// `ShardId::of` assigns each schedule to its shard.
const IDS: u128 = 0x43ca << 64;

/// Returns the ids of the canary's schedules.
pub(super) fn schedules(shards: u16) -> impl Iterator<Item = ScheduleId> {
    (0..shards.min(MAX_SCHEDULES)).map(id)
}

fn id(shard: u16) -> ScheduleId {
    ScheduleId::new(Timestamp::from_millis(0), IDS | u128::from(shard))
}

/// Creates the account and the schedules that are missing, and resumes a suspended account.
pub(super) async fn set_up(parts: &CanaryParts, now: Timestamp) -> Result<(), RunError> {
    let CanaryParts { store, random, shards, .. } = parts;
    match store.account(account()).await? {
        None if store.create_account(&write(random, now), NAME, UNLIMITED).await? => {}
        None => {
            return Err(format!(
                "cannot create the canary's account: another account is named {NAME}; \
                 delete that account or set canary.enabled to false"
            )
            .into());
        }
        Some(found) if found.suspended_at.is_some() => {
            store.set_suspended(&write(random, now), false).await?;
        }
        Some(_) => {}
    }
    let mut missing = Vec::new();
    for shard in 0..(*shards).min(MAX_SCHEDULES) {
        if store.schedule(account(), id(shard)).await?.is_none() {
            let version = VersionId::new(now, random.bits());
            missing.push(schedule(ShardId(shard), version, now));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    store.create_schedules(&write(random, now), &missing, None).await?;
    for made in missing {
        // A lost hint only delays the first tick by a few seconds.
        let member = OwnedSchedule { schedule: made.id, account: account() };
        let _ = parts.queue.hint(made.shard, &ShardChanges::of([member])).await;
    }
    Ok(())
}

fn schedule(shard: ShardId, version: VersionId, now: Timestamp) -> NewSchedule {
    // Each schedule has its own host, so that the limit per host never makes one wait for another.
    let host = format!("{shard}{HOSTS}");
    let next_minute = super::minute(now).as_millis() + super::MINUTE_MS;
    let definition = Definition {
        cron_expression: "* * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        endpoint: format!("http://{host}{PATH}"),
        http_method: HttpMethod::Get,
        body: None,
        headers: None,
        max_retries: 2,
        timeout_seconds: 10,
        expected_status_codes: Some("200".to_owned()),
        sign_requests: false,
    };
    NewSchedule {
        id: id(shard.0),
        shard,
        name: format!("canary of shard {shard}"),
        description: None,
        version: NewVersion { id: version, definition, host: HostKey::of(&host) },
        is_enabled: true,
        overlap_policy: OverlapPolicy::Allow,
        catch_up_policy: CatchUpPolicy::Skip,
        next_tick: Some(Timestamp::from_millis(next_minute)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schedule_is_of_its_shard() {
        for shards in [1, 6, 64, 200] {
            let of = schedules(shards).map(|id| ShardId::of(id, shards).0);
            assert_eq!(of.collect::<Vec<_>>(), (0..shards.min(64)).collect::<Vec<_>>());
        }
    }
}
