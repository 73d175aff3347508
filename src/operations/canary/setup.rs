//! The canary's account and schedules. Their ids follow from the shards, so that replicas that make
//! them at once make the same.

use super::{CanaryParts, HOSTS, PATH, account, write};
use crate::domain::plan::UNLIMITED;
use crate::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::{ScheduleId, Timestamp, VersionId};
use crate::queue::{Changes, Member};
use crate::runtime::RunError;
use crate::store::{NewSchedule, NewVersion};

/// What the account is called.
const NAME: &str = "punctual-canary";
/// The most schedules: they shall be a small part of what the service does.
const MOST: u16 = 64;
/// The upper part of the schedules' ids; the lower 64 bits are the shard, from which it follows.
const IDS: u128 = 0x43ca << 64;

/// The ids of the schedules.
pub(super) fn schedules(shards: u16) -> impl Iterator<Item = ScheduleId> {
    (0..shards.min(MOST)).map(id)
}

fn id(shard: u16) -> ScheduleId {
    ScheduleId::new(Timestamp::from_millis(0), IDS | u128::from(shard))
}

/// Makes what is missing, and lets it run if it rests.
pub(super) async fn set_up(parts: &CanaryParts, now: Timestamp) -> Result<(), RunError> {
    let CanaryParts { store, random, shards, .. } = parts;
    match store.account(account()).await? {
        None if store.create_account(&write(random, now), NAME, UNLIMITED).await? => {}
        None => {
            return Err(format!(
                "the canary has no account, because one of users is named {NAME}: \
                 delete it, or switch canary.enabled off"
            )
            .into());
        }
        Some(found) if found.suspended_at.is_some() => {
            store.set_suspended(&write(random, now), false).await?;
        }
        Some(_) => {}
    }
    let mut missing = Vec::new();
    for shard in 0..(*shards).min(MOST) {
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
        // A hint that is lost costs a few seconds.
        let member = Member { schedule: made.id, account: account() };
        let _ = parts.queue.hint(made.shard, &Changes::of([member])).await;
    }
    Ok(())
}

fn schedule(shard: ShardId, version: VersionId, now: Timestamp) -> NewSchedule {
    // A host for each, so that no cap keeps one waiting for another.
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
