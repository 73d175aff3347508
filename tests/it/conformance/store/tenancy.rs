use punctual::domain::JobId;
use punctual::domain::schedule::SkipReason;
use punctual::domain::user::Role;
use punctual::store::{
    AttemptEnd, Cancelled, Firing, JobQuery, MemberChange, MemberChanged, NewJob, RetryResult,
    ScheduleChangeResult, ScheduleState, SkipQuery, TickRange, TriggerResult, WriteContext,
};

use super::accounts::new_key;
use super::users::{member, new_invitation};
use super::world::{World, every_job, every_schedule, minute, soon};

fn foreign(w: &World) -> WriteContext {
    w.write_for(w.foreign, minute(5))
}

pub async fn schedules_of_other_accounts_are_not_found(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let range = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(range, SkipReason::Quota)];
    w.fire(soon(minute(1)), &[Firing { skips, jobs: vec![], ..firing }]).await;
    let before = w.read(id).await;

    assert_eq!(w.store.schedule(w.foreign, id).await.expect("read"), None);
    let page = w.store.schedules(w.foreign, &every_schedule()).await.expect("list");
    assert_eq!((page.schedules.len(), page.total), (0, 0));
    let change = ScheduleState { name: "stolen".into(), ..w.change(id).await };
    let changed = w.store.change_schedule(&foreign(w), id, &change).await.expect("change");
    assert_eq!(changed, ScheduleChangeResult::NotFound);
    assert!(!w.store.delete_schedule(&foreign(w), id).await.expect("delete"));
    let query = SkipQuery { from: None, to: None, after: None, limit: 9 };
    let page = w.store.skips(w.foreign, id, &query).await.expect("list");
    assert_eq!((page.skips.len(), page.next), (0, None));
    let new = NewJob { id: JobId::new(minute(5), 1), schedule: id };
    let made = w.store.create_job(&foreign(w), &new, None).await.expect("create");
    assert_eq!(made, TriggerResult::NoSuchSchedule);

    assert_eq!(w.read(id).await, before);
    assert_eq!(w.skips(id).await.len(), 1);
    assert!(w.listed(&every_job()).await.is_empty());
}

pub async fn jobs_of_other_accounts_are_not_found(w: &World) {
    let id = w.schedule().await;
    let [done, waiting, running] = [
        w.manual_job(id, minute(1)).await,
        w.manual_job(id, minute(1)).await,
        w.manual_job(id, minute(1)).await,
    ];
    w.run(minute(1), done, AttemptEnd::Succeeded).await;
    w.claim(minute(1), &[running]).await;
    for job in [done, waiting, running] {
        let before = w.job_and_attempts(job).await;
        assert_eq!(w.store.job(w.foreign, job).await.expect("read"), None);
        let cancelled = w.store.cancel_job(&foreign(w), job).await.expect("cancel");
        assert_eq!(cancelled, Cancelled::NotFound);
        let again = JobId::new(minute(5), 1);
        let retried = w.store.retry_job(&foreign(w), job, again, None).await.expect("retry");
        assert_eq!(retried, RetryResult::NotFound);
        assert_eq!(w.job_and_attempts(job).await, before);
    }
    for schedule in [None, Some(id)] {
        for status in [None, Some(punctual::domain::job::JobStatus::Pending)] {
            let query = JobQuery { schedule, status, ..every_job() };
            let page = w.store.jobs(w.foreign, &query).await.expect("list");
            assert_eq!((page.jobs.len(), page.total, page.has_more), (0, 0, false));
        }
    }
    assert_eq!(w.listed(&every_job()).await.len(), 3);
}

pub async fn keys_of_other_accounts_are_not_found(w: &World) {
    let key = new_key(1);
    w.store.create_key(&w.write(minute(1)), &key).await.expect("create");
    assert!(w.store.keys(w.foreign).await.expect("list").is_empty());
    assert!(!w.store.revoke_key(&foreign(w), key.id).await.expect("revoke"));
    let known = w.store.key(key.id).await.expect("read").expect("a key");
    assert_eq!((known.account, known.revoked_at), (w.account, None));
}

pub async fn members_of_other_accounts_are_not_found(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    let invitation = new_invitation(1, "bob");
    assert!(w.store.create_invitation(&w.write(minute(1)), &invitation).await.expect("invite"));
    assert_eq!(w.store.role(w.foreign, ann).await.expect("read"), None);
    assert_eq!(w.store.members(w.foreign).await.expect("list"), []);
    assert_eq!(w.store.invitations(w.foreign, minute(1)).await.expect("list"), []);
    assert!(!w.store.delete_invitation(&foreign(w), invitation.id).await.expect("delete"));
    for change in [MemberChange::Remove, MemberChange::Set(Role::Viewer)] {
        let changed = w.store.change_member(&foreign(w), ann, change).await.expect("change");
        assert_eq!(changed, MemberChanged::NoSuchMember);
    }
    assert_eq!(w.store.role(w.account, ann).await.expect("read"), Some(Role::Owner));
    assert_eq!(w.store.invitations(w.account, minute(1)).await.expect("list").len(), 1);
}
