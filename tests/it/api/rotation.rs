//! Ticks of the same instant fire in rotation over the accounts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::domain::audit::Author;
use punctual::domain::plan::{Plans, UNLIMITED};
use punctual::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use punctual::domain::shard::ShardId;
use punctual::domain::ticket::{HostKey, Ticket};
use punctual::domain::{AccountId, AuditId, ScheduleId, Timestamp, VersionId};
use punctual::local_executor::{LocalFiring, LocalStarter};
use punctual::runtime::Random;
use punctual::scheduler::{Leader, SchedulerContext};
use punctual::store::{
    AccountStore, Fence, Firing, NewSchedule, NewVersion, ScheduleStore, WriteContext,
};

use super::harness::{SHARDS, Service};
use super::plans::{context, fire};

/// The number of batches that are fired concurrently.
const AT_ONCE: usize = 4;

/// An executor without room. It records the accounts of each batch.
#[derive(Default)]
struct Batches(Mutex<Vec<Vec<AccountId>>>);

#[async_trait]
impl LocalStarter for Batches {
    async fn fire(
        &self,
        _: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        timeout: Duration,
    ) -> Result<LocalFiring, Vec<(Firing, Ticket)>> {
        // Each batch first asks without waiting, and then with all the time it has.
        if timeout.is_zero() {
            let accounts = wanted.iter().map(|(_, ticket)| ticket.account).collect();
            self.0.lock().expect("no panic").push(accounts);
        }
        Err(wanted)
    }
}

fn definition() -> Definition {
    Definition {
        cron_expression: "* * * * *".into(),
        timezone: "UTC".into(),
        endpoint: "http://127.0.0.1:9/".into(),
        http_method: HttpMethod::Get,
        body: None,
        headers: None,
        max_retries: 1,
        timeout_seconds: 1,
        expected_status_codes: None,
        sign_requests: false,
    }
}

/// Stores schedules of a new account in all shards, due at the next minute.
async fn schedules(service: &Service, random: &Random, count: u16) -> AccountId {
    let now = service.clock.now();
    let account = AccountId::new(now, random.bits());
    let entry = || AuditId::new(now, random.bits());
    let write = || WriteContext {
        account,
        now,
        author: Author::SERVICE,
        entry: entry(),
        idempotency: None,
    };
    let name = account.to_string();
    assert!(service.store.create_account(&write(), &name, UNLIMITED).await.expect("created"));
    let ms = now.as_millis();
    let next = Timestamp::from_millis(ms - ms % 60_000 + 60_000);
    let new = |n: u16| NewSchedule {
        id: ScheduleId::new(now, random.bits()),
        shard: ShardId(n % SHARDS),
        name: format!("schedule {n}"),
        description: None,
        version: NewVersion {
            id: VersionId::new(now, random.bits()),
            definition: definition(),
            host: HostKey(1),
        },
        is_enabled: true,
        overlap_policy: OverlapPolicy::Allow,
        catch_up_policy: CatchUpPolicy::Last,
        next_tick: Some(next),
    };
    let all: Vec<_> = (0..count).map(new).collect();
    for some in all.chunks(500) {
        service.store.create_schedules(&write(), some, None).await.expect("created");
    }
    account
}

#[tokio::test]
async fn a_few_schedules_fire_beside_however_many_of_another_account() {
    let service = Service::start().await;
    let random = Random::seeded(11);
    let many = schedules(&service, &random, 3_000).await;
    service.advance(1);
    let few = schedules(&service, &random, 20).await;
    let batches = Arc::new(Batches::default());
    let context = SchedulerContext { starter: Some(batches.clone()), ..context(&service) };
    let mut leader = Leader::new(context, Arc::new(Plans::new(Vec::new())), Random::seeded(5));
    fire(&service, &mut leader).await;
    service.advance(60);
    fire(&service, &mut leader).await;
    let batches = batches.0.lock().expect("no panic").clone();
    let of = |account, batch: &[AccountId]| batch.iter().filter(|of| **of == account).count();
    // The first batches are read concurrently, and the first one that arrives fires first.
    let at_once = &batches[..AT_ONCE];
    assert_eq!(at_once.iter().map(|batch| of(few, batch)).max(), Some(20), "{}", batches.len());
    // They share a batch with as many of the other account, which is small and so fires fast.
    let (mixed, others): (Vec<_>, Vec<_>) = batches.iter().partition(|batch| of(few, batch) > 0);
    assert!(mixed.iter().all(|batch| of(many, batch) <= 21), "{}", mixed.len());
    assert!(others.len() >= 6 && others[..6].iter().all(|batch| batch.len() > 100));
}
