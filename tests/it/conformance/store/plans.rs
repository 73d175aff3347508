use std::time::Duration;

use futures_util::future::join_all;

use punctual::domain::job::JobStatus;
use punctual::domain::key::MAX_KEYS;
use punctual::domain::plan::UNLIMITED;
use punctual::domain::schedule::OverlapPolicy;
use punctual::domain::shard::ShardId;
use punctual::domain::{AccountId, JobId, ScheduleId, Timestamp};
use punctual::store::{
    AttemptEnd, CHANGES_KEPT, CreationResult, Fence, Fired, Firing, JobGrants, KeyCreated, NewJob,
    NewKey, RetryResult, ScheduleState, StoreErrorKind, TriggerResult, UsedUp, WantedJobs,
};

use super::accounts::new_key;
use super::world::{SHARD, World, every_job, minute, soon};

const ROUNDS: u64 = 8;

pub async fn a_plan_is_kept_and_can_change(w: &World) {
    let id = w.schedule().await;
    w.store.create_key(&w.write(minute(0)), &new_key(1)).await.expect("create");
    let account = w.store.account(w.account).await.expect("read").expect("there");
    assert_eq!((account.plan.as_str(), account.suspended_at), (UNLIMITED, None));
    assert!(w.store.set_plan(&w.write(minute(1)), "free").await.expect("set"));
    let account = w.store.account(w.account).await.expect("read").expect("there");
    assert_eq!(account.plan, "free");
    let key = w.store.key(new_key(1).id).await.expect("read").expect("there");
    assert_eq!(key.plan, "free");
    let found = w.candidates(&[id]).await;
    assert_eq!(found[0].plan.as_deref(), Some("free"));
    let beside = async |known: &[&str]| {
        let known: Vec<_> = known.iter().map(ToString::to_string).collect();
        w.store.plans_beside(&known).await.expect("read")
    };
    assert_eq!(beside(&[]).await, ["free", UNLIMITED]);
    assert_eq!(beside(&[UNLIMITED, "large"]).await, ["free"]);
    assert!(beside(&[UNLIMITED, "free"]).await.is_empty());
    let unknown = w.write_for(AccountId::new(minute(0), 99), minute(1));
    let of = w.store.plans_of(&[w.account, unknown.account, w.foreign]).await;
    let (of, named) = (of.expect("read"), |account, plan: &str| (account, plan.to_owned()));
    assert!(of.contains(&named(w.account, "free")) && of.contains(&named(w.foreign, UNLIMITED)));
    assert_eq!((of.len(), w.store.plans_of(&[]).await.expect("read")), (2, Vec::new()));
    assert!(!w.store.set_plan(&unknown, "free").await.expect("set"));
    assert!(!w.store.set_suspended(&unknown, true).await.expect("set"));
}

pub async fn of_two_creations_at_once_one_fits(w: &World) {
    for round in 1..=ROUNDS {
        let creations = (0..2).map(|_| {
            let (store, write, new) = (w.store.clone(), w.write(minute(1)), w.new_schedule());
            w.spawn(async move {
                store.create_schedules(&write, &[new], Some(round)).await.expect("create")
            })
        });
        let mut outcomes = join_all(creations).await;
        outcomes.sort_by_key(|outcome| *outcome != CreationResult::All);
        assert_eq!(outcomes, [CreationResult::All, CreationResult::TooMany { current: round }]);
        let usage = w.store.usage(w.account, minute(1)).await.expect("count");
        assert_eq!(usage.schedules, round);
    }
}

pub async fn a_batch_counts_whole(w: &World) {
    w.schedule_with(|new| new.is_enabled = false).await;
    let three = [w.new_schedule(), w.new_schedule(), w.new_schedule()];
    let write = w.write(minute(1));
    let create = |most| w.store.create_schedules(&write, &three, most);
    assert_eq!(create(Some(3)).await.expect("create"), CreationResult::TooMany { current: 1 });
    assert!(w.store.schedule(w.account, three[0].id).await.expect("read").is_none());
    assert_eq!(create(Some(4)).await.expect("create"), CreationResult::All);
    let others = w.write_for(w.foreign, minute(1));
    let one = [w.new_schedule()];
    let created = w.store.create_schedules(&others, &one, Some(1)).await.expect("create");
    assert_eq!(created, CreationResult::All, "each account has its own");
}

pub async fn an_account_has_ten_keys_at_most(w: &World) {
    let creations = (0..14).map(|number| {
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        w.spawn(async move { store.create_key(&write, &new_key(number)).await.expect("create") })
    });
    let outcomes = join_all(creations).await;
    let made = outcomes.iter().filter(|outcome| **outcome == KeyCreated::Done).count() as u64;
    let refused = outcomes.iter().filter(|outcome| **outcome == KeyCreated::TooMany).count();
    assert_eq!((made, refused), (MAX_KEYS, 4));

    let keys = w.store.keys(w.account).await.expect("list");
    w.store.revoke_key(&w.write(minute(2)), keys[0].id).await.expect("revoke");
    let brief = NewKey { expires_at: Some(minute(4)), ..new_key(20) };
    let outcome = w.store.create_key(&w.write(minute(3)), &brief).await.expect("create");
    assert_eq!(outcome, KeyCreated::Done, "a revoked one makes room");
    let outcome = w.store.create_key(&w.write(minute(3)), &new_key(21)).await.expect("create");
    assert_eq!(outcome, KeyCreated::TooMany);
    let outcome = w.store.create_key(&w.write(minute(4)), &new_key(22)).await.expect("create");
    assert_eq!(outcome, KeyCreated::Done, "and so does an expired one");
}

pub async fn ticks_of_a_suspended_account_do_not_fire(w: &World) {
    let id = w.schedule().await;
    let suspended_until = async || {
        let found = w.candidates(&[id]).await;
        found[0].suspended_until
    };
    assert_eq!(suspended_until().await, None);
    for now in [minute(2), minute(3)] {
        assert!(w.store.set_suspended(&w.write(now), true).await.expect("set"));
        let account = w.store.account(w.account).await.expect("read").expect("there");
        assert_eq!(account.suspended_at, Some(minute(2)), "since the first time");
        assert_eq!(suspended_until().await, Some(Timestamp::from_millis(i64::MAX)));
    }
    for now in [minute(5), minute(6)] {
        assert!(w.store.set_suspended(&w.write(now), false).await.expect("set"));
        let account = w.store.account(w.account).await.expect("read").expect("there");
        assert_eq!(account.suspended_at, None);
        assert_eq!(suspended_until().await, Some(minute(5)), "when it first went on");
    }
}

pub async fn schedules_that_were_read_before_their_account_changed_do_not_fire(w: &World) {
    let mut ids = Vec::new();
    for policy in [OverlapPolicy::Allow, OverlapPolicy::Skip] {
        ids.push(w.schedule_with(|new| new.overlap_policy = policy).await);
    }
    let read = async || [w.firing(ids[0]).await, w.firing(ids[1]).await];
    let fire = async |firings: &[Firing]| {
        let fired = w.store.fire(&[w.fence], soon(minute(1)), firings).await.expect("fire");
        let Fired { tickets, advanced, stale, busy, .. } = fired;
        assert_eq!((advanced.len(), stale.len()), (tickets.len(), 0));
        (tickets.len(), busy)
    };
    for change in 0..3 {
        let (firings, write) = (read().await, w.write(minute(1)));
        match change {
            0 => w.store.set_suspended(&write, true).await.expect("set"),
            1 => w.store.set_suspended(&write, false).await.expect("set"),
            _ => w.store.set_plan(&write, "small").await.expect("set"),
        };
        // A later change of another account hides nothing.
        let other = w.write_for(w.foreign, minute(1));
        w.store.set_suspended(&other, change == 0).await.expect("set");
        assert_eq!(fire(&firings).await, (0, ids.clone()), "{change}");
    }
    assert!(w.listed(&every_job()).await.is_empty());
    let again = read().await;
    assert_eq!(fire(&again).await, (2, vec![]), "as they are read now");
}

pub async fn a_change_of_another_account_does_not_stop_a_firing(w: &World) {
    let id = w.schedule().await;
    let change = async |suspended| {
        let write = w.write_for(w.foreign, minute(1));
        assert!(w.store.set_suspended(&write, suspended).await.expect("set"));
    };
    let firing = w.firing(id).await;
    let fire = async |firing: &Firing| {
        let firings = std::slice::from_ref(firing);
        w.store.fire(&[w.fence], soon(firing.tick), firings).await.expect("fire")
    };
    change(true).await;
    assert_eq!(fire(&firing).await.tickets.len(), 1);
    let firing = w.firing(id).await;
    for n in 0..=CHANGES_KEPT {
        change(n % 2 == 1).await;
    }
    let fired = fire(&firing).await;
    assert_eq!((fired.tickets.len(), fired.busy), (0, vec![id]), "their owners are not known");
    assert_eq!(fire(&w.firing(id).await).await.tickets.len(), 1);
}

pub async fn one_call_fires_in_all_shards_but_those_of_newer_leaders(w: &World) {
    let (here, there, lost) = (SHARD, ShardId(1), ShardId(2));
    let mut fences = vec![w.fence];
    for shard in [there, lost] {
        let epoch = w.store.raise_epoch(shard, "replica", minute(0)).await.expect("raise");
        fences.push(Fence { shard, epoch });
    }
    w.store.raise_epoch(lost, "another", minute(0)).await.expect("raise");
    let mut firings = Vec::new();
    for policy in [OverlapPolicy::Allow, OverlapPolicy::Skip] {
        for shard in [here, there, lost] {
            let id = w.schedule_with(|new| (new.shard, new.overlap_policy) = (shard, policy)).await;
            let firing = w.firing(id).await;
            let read = w.store.candidates(&[(shard, id)], minute(0)).await.expect("read");
            assert_eq!(read[0].shard, shard);
            firings.push(Firing { shard, suspensions: read[0].suspensions, ..firing });
        }
    }
    let fired = w.store.fire(&fences, soon(minute(1)), &firings).await.expect("fire");
    assert_eq!(fired.fenced, [lost]);
    let mut shards: Vec<_> = fired.tickets.iter().map(|ticket| ticket.shard.0).collect();
    shards.sort_unstable();
    assert_eq!(shards, [0, 0, 1, 1]);
    assert_eq!((fired.advanced.len(), fired.stale.len(), fired.busy.len()), (4, 0, 0));
    let error = w.store.fire(&fences[..1], soon(minute(1)), &firings).await.expect_err("no fence");
    assert_eq!(error.kind(), StoreErrorKind::Rejected);
}

/// Returns the number of granted jobs, and `true` if this exhausts the quota for the first time.
async fn reserve(w: &World, now: Timestamp, quota: u64, ahead: u32, jobs: u32) -> (u64, bool) {
    let wanted = WantedJobs { account: w.account, quota, jobs };
    w.store.begin_months(now, &[w.account]).await.expect("begin");
    let granted = w.steady.reserve_jobs(now, ahead, &[wanted]).await.expect("reserve").granted;
    assert_eq!((granted.len(), granted[0].account), (1, w.account));
    (granted[0].jobs, granted[0].newly_exhausted)
}

pub async fn jobs_are_reserved_up_to_the_quota(w: &World) {
    let now = minute(0);
    assert_eq!(reserve(w, now, 1_000, 1_000, 3).await, (10, false), "one in a hundred");
    assert_eq!(reserve(w, now, 1_000, 4, 3).await, (4, false), "no more than that ahead");
    assert_eq!(reserve(w, now, 1_000, 0, 3).await, (3, false));
    assert_eq!(reserve(w, now, 1_000, 1_000, 982).await, (982, false));
    let usage = w.store.usage(w.account, now).await.expect("count");
    assert_eq!((usage.jobs_reserved, usage.quota_exhausted_at), (Some(999), None));
    assert_eq!(reserve(w, minute(1), 1_000, 1_000, 5).await, (1, true));
    assert_eq!(
        reserve(w, minute(2), 1_000, 1_000, 5).await,
        (0, false),
        "the exhaustion is reported once"
    );
    let usage = w.store.usage(w.account, now).await.expect("count");
    assert_eq!((usage.jobs_reserved, usage.quota_exhausted_at), (Some(1_000), Some(minute(1))));
    assert_eq!(reserve(w, minute(2), 500, 1_000, 5).await, (0, false), "a smaller plan");
    assert_eq!(reserve(w, minute(2), 1_002, 1_000, 1).await, (1, false), "a larger one");
    let usage = w.store.usage(w.account, now).await.expect("count");
    assert_eq!((usage.jobs_reserved, usage.quota_exhausted_at), (Some(1_001), None));
    assert_eq!(
        reserve(w, minute(3), 1_002, 1_000, 9).await,
        (1, true),
        "the exhaustion is reported again"
    );
    let usage = w.store.usage(w.account, now).await.expect("count");
    assert_eq!(usage.quota_exhausted_at, Some(minute(3)));

    let june = now.plus(Duration::from_secs(30 * 86_400));
    assert_eq!(reserve(w, june, 1_000, 0, 1).await, (1, false));
    let both = [w.foreign, w.account].map(|account| WantedJobs { account, quota: 9, jobs: 2 });
    let JobGrants { granted, held } = w.steady.reserve_jobs(june, 0, &both).await.expect("reserve");
    assert_eq!((granted.len(), held.len()), (1, 0), "the other one has no counter yet");
    assert_eq!(w.steady.await_jobs(june, 0, &both[0]).await.expect("reserve"), None);
    w.store.begin_months(june, &[w.foreign, w.account]).await.expect("begin");
    let granted = w.steady.reserve_jobs(june, 0, &both).await.expect("reserve").granted;
    assert!(granted.iter().all(|granted| granted.jobs == 2) && granted.len() == 2);
    let nothing = w.store.reserve_jobs(june, 0, &[]).await.expect("reserve");
    assert_eq!(nothing, JobGrants::default());
}

pub async fn another_plan_counts_the_month_again(w: &World) {
    let schedule = w.schedule().await;
    w.manual_job(schedule, minute(1)).await;
    assert_eq!(reserve(w, minute(1), 3, 0, 5).await, (2, true));
    w.store.set_plan(&w.write(minute(2)), "large").await.expect("set");
    let usage = w.store.usage(w.account, minute(2)).await.expect("count");
    assert_eq!((usage.jobs_reserved, usage.quota_exhausted_at), (None, None));
    // Without a limit, jobs are not counted. Then a limit applies again.
    for _ in 0..3 {
        w.manual_job(schedule, minute(3)).await;
    }
    w.store.set_plan(&w.write(minute(3)), "small").await.expect("set");
    assert_eq!(reserve(w, minute(3), 5, 0, 5).await, (1, true), "four were made");
    w.store.set_plan(&w.write(minute(4)), "small").await.expect("set");
    assert_eq!(reserve(w, minute(4), 5, 0, 5).await, (0, false), "it has that plan");
}

pub async fn of_many_reservations_at_once_none_is_too_much(w: &World) {
    w.store.begin_months(minute(1), &[w.account]).await.expect("begin");
    let reservations = (0..9).map(|_| {
        let (store, account) = (w.steady.clone(), w.account);
        w.spawn(async move {
            let wanted = [WantedJobs { account, quota: 20, jobs: 3 }];
            loop {
                // Another transaction may hold the counter.
                let grants = store.reserve_jobs(minute(1), 0, &wanted).await.expect("reserve");
                if let [granted] = grants.granted[..] {
                    return granted;
                }
            }
        })
    });
    let granted = join_all(reservations).await;
    assert_eq!(granted.iter().map(|granted| granted.jobs).sum::<u64>(), 20);
    assert_eq!(granted.iter().filter(|granted| granted.newly_exhausted).count(), 1);
}

pub async fn a_month_begins_with_the_jobs_made_in_it(w: &World) {
    let schedule = w.schedule().await;
    for number in 1..=3 {
        w.manual_job(schedule, minute(number)).await;
    }
    assert_eq!(reserve(w, minute(4), 5, 1_000, 1).await, (1, false));
    assert_eq!(reserve(w, minute(4), 5, 1_000, 2).await, (1, true), "five in all");
}

/// Triggers a job under a quota, for an account whose jobs are counted.
async fn trigger(w: &World, schedule: ScheduleId, quota: u64) -> TriggerResult {
    w.store.begin_months(minute(1), &[w.account]).await.expect("count");
    let new = NewJob { id: JobId::new(minute(1), w.random.bits()), schedule };
    w.steady.create_job(&w.write(minute(1)), &new, Some(quota)).await.expect("create")
}

pub async fn a_job_by_hand_is_counted_if_it_is_made(w: &World) {
    let [schedule, gone] = [w.schedule().await, w.schedule().await];
    let of_gone = w.manual_job(gone, minute(1)).await;
    w.store.delete_schedule(&w.write(minute(1)), gone).await.expect("delete");
    let reserved = async || {
        w.store.usage(w.account, minute(1)).await.expect("count").jobs_reserved.unwrap_or(0)
    };
    let retry = async |of| {
        let id = JobId::new(minute(1), w.random.bits());
        w.steady.retry_job(&w.write(minute(1)), of, id, Some(3)).await.expect("retry")
    };
    assert_eq!(trigger(w, gone, 3).await, TriggerResult::NoSuchSchedule);
    assert_eq!(retry(of_gone).await, RetryResult::ScheduleGone);
    assert_eq!(retry(JobId::new(minute(1), 1)).await, RetryResult::NotFound);
    let job = trigger(w, schedule, 3).await.ticket().expect("made").job;
    assert_eq!(reserved().await, 2, "with the one that was made before there was a quota");
    assert_eq!(retry(job).await, RetryResult::Unfinished);
    let again = NewJob { id: job, schedule };
    let refused = w.steady.create_job(&w.write(minute(1)), &again, Some(3)).await;
    assert_eq!(refused.expect_err("it is there").kind(), StoreErrorKind::Rejected);
    assert_eq!(reserved().await, 2);
    w.store.cancel_job(&w.write(minute(2)), job).await.expect("cancel");
    assert!(matches!(retry(job).await, RetryResult::Created(_)));
    for newly in [true, false] {
        let used_up = UsedUp { reserved: 3, newly };
        assert_eq!(trigger(w, schedule, 3).await, TriggerResult::UsedUp(used_up));
    }
    assert_eq!(retry(job).await, RetryResult::UsedUp(UsedUp { reserved: 3, newly: false }));
    assert_eq!((reserved().await, w.listed(&every_job()).await.len()), (3, 3));
    let usage = w.store.usage(w.account, minute(1)).await.expect("count");
    assert_eq!(usage.quota_exhausted_at, Some(minute(1)));
}

pub async fn another_plan_comes_before_or_after_what_it_limits(w: &World) {
    let schedule = w.schedule().await;
    for round in 1..=ROUNDS {
        let new = NewJob { id: JobId::new(minute(1), w.random.bits()), schedule };
        let (store, write) = (w.steady.clone(), w.write(minute(1)));
        let made = w.spawn(async move {
            loop {
                store.begin_months(minute(1), &[write.account]).await.expect("count");
                let made = store.create_job(&write, &new, Some(99)).await.expect("create");
                if made != TriggerResult::Uncounted {
                    return made;
                }
            }
        });
        let (store, write, new) = (w.steady.clone(), w.write(minute(1)), w.new_schedule());
        let created = w.spawn(async move {
            store.create_schedules(&write, &[new], Some(round + 1)).await.expect("create")
        });
        let plan = if round % 2 == 0 { "even" } else { "odd" };
        assert!(w.steady.set_plan(&w.write(minute(1)), plan).await.expect("set"));
        assert!(made.await.ticket().is_some());
        assert_eq!(created.await, CreationResult::All);
    }
    w.store.set_plan(&w.write(minute(1)), "last").await.expect("set");
    assert_eq!(reserve(w, minute(1), ROUNDS + 1, 0, 9).await, (1, true), "all are counted");
}

pub async fn of_many_jobs_by_hand_none_is_too_much(w: &World) {
    let schedule = w.schedule().await;
    w.store.begin_months(minute(1), &[w.account]).await.expect("count");
    let triggers = (0..12).map(|_| {
        let new = NewJob { id: JobId::new(minute(1), w.random.bits()), schedule };
        let (store, write) = (w.steady.clone(), w.write(minute(1)));
        w.spawn(async move { store.create_job(&write, &new, Some(5)).await.expect("create") })
    });
    let made = join_all(triggers).await;
    let newly =
        |made: &&TriggerResult| matches!(made, TriggerResult::UsedUp(used_up) if used_up.newly);
    assert_eq!(made.iter().filter(newly).count(), 1);
    assert_eq!(made.into_iter().filter_map(TriggerResult::ticket).count(), 5);
    assert_eq!(w.listed(&every_job()).await.len(), 5);
}

pub async fn nothing_of_a_suspended_or_deleted_account_is_changed(w: &World) {
    let id = w.schedule().await;
    let [done, waiting] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    w.run(minute(1), done, AttemptEnd::Succeeded).await;
    let change = ScheduleState { is_enabled: false, ..w.change(id).await };
    let refused = async |kind| {
        let write = w.write(minute(3));
        let job = NewJob { id: JobId::new(minute(3), 1), schedule: id };
        let again = JobId::new(minute(3), 2);
        let new = [w.new_schedule()];
        let kinds = [
            w.store.create_schedules(&write, &new, None).await.map(|_| ()),
            w.store.create_schedules(&write, &new, Some(9)).await.map(|_| ()),
            w.store.change_schedule(&write, id, &change).await.map(|_| ()),
            w.store.delete_schedule(&write, id).await.map(|_| ()),
            w.store.create_job(&write, &job, None).await.map(|_| ()),
            w.store.create_job(&write, &job, Some(9)).await.map(|_| ()),
            w.store.retry_job(&write, done, again, None).await.map(|_| ()),
            w.store.cancel_job(&write, waiting).await.map(|_| ()),
        ];
        let kinds = kinds.map(|done| done.expect_err("refused").kind());
        assert_eq!(kinds, [kind; 8]);
    };
    assert!(w.store.set_suspended(&w.write(minute(2)), true).await.expect("suspend"));
    refused(StoreErrorKind::Suspended).await;
    assert_eq!(w.status(waiting).await, JobStatus::Pending);
    assert!(w.store.delete_account(&w.write(minute(3))).await.expect("delete"));
    refused(StoreErrorKind::NoSuchAccount).await;
}
