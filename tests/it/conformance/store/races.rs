use futures_util::future::join_all;

use punctual::domain::JobId;
use punctual::domain::job::JobStatus;
use punctual::domain::outcome::ErrorCode;
use punctual::store::{
    AttemptEnd, Cancelled, CompletionResult, NewJob, NewSchedule, StoreErrorKind, TriggerResult,
};

use super::world::{World, every_job, minute, soon};

const ROUNDS: usize = 12;

pub async fn two_leaders_fire_a_tick_once(w: &World) {
    let id = w.schedule().await;
    for n in 1..=4 {
        let firing = w.firing(id).await;
        let leaders = (0..6).map(|_| {
            let (store, firing, fence) = (w.store.clone(), firing.clone(), w.fence);
            w.spawn(async move { store.fire(&[fence], soon(minute(n)), &[firing]).await })
        });
        let mut tickets = 0;
        for fired in join_all(leaders).await {
            let fired = fired.expect("fire");
            assert_eq!(fired.fenced, [], "the fence holds");
            tickets += fired.tickets.len();
        }
        assert_eq!(tickets, 1);
    }
    assert_eq!(w.listed(&every_job()).await.len(), 4);
}

pub async fn triggers_come_before_or_after_a_delete(w: &World) {
    for _ in 0..ROUNDS {
        let id = w.schedule().await;
        let triggers = (0..6).map(|_| {
            let new = NewJob { id: JobId::new(minute(1), w.random.bits()), schedule: id };
            let (store, write) = (w.store.clone(), w.write(minute(1)));
            w.spawn(async move { store.create_job(&write, &new, None).await.expect("create") })
        });
        let triggers: Vec<_> = triggers.collect();
        let deleted = w.store.delete_schedule(&w.write(minute(2)), id).await.expect("delete");
        assert!(deleted);
        for ticket in join_all(triggers).await.into_iter().filter_map(TriggerResult::ticket) {
            let job = w.job(ticket.job).await;
            assert_eq!(job.error_code, Some(ErrorCode::Cancelled), "made before, so ended");
        }
    }
    assert_eq!(w.store.unfinished(9).await.expect("count"), 0);
}

pub async fn changes_come_before_or_after_a_suspension(w: &World) {
    for most in [None, Some(1_000), None, Some(1_000)] {
        let id = w.schedule().await;
        let running = (0..6).map(|number| {
            let job = NewJob { id: JobId::new(minute(1), w.random.bits()), schedule: id };
            let (store, write, new) = (w.store.clone(), w.write(minute(1)), w.new_schedule());
            w.spawn(async move {
                let done = if number % 2 == 0 {
                    let made = store.create_job(&write, &job, None).await;
                    made.map(|made| assert!(matches!(made, TriggerResult::Created(_)), "{made:?}"))
                } else {
                    store.create_schedules(&write, &[new], most).await.map(|_| ())
                };
                done.err().map(|error| assert_eq!(error.kind(), StoreErrorKind::Suspended))
            })
        });
        let running: Vec<_> = running.collect();
        let there = async || {
            let schedules = w.store.usage(w.account, minute(1)).await.expect("count").schedules;
            (schedules, w.listed(&every_job()).await.len())
        };
        assert!(w.store.set_suspended(&w.write(minute(2)), true).await.expect("suspend"));
        let before = there().await;
        join_all(running).await;
        assert_eq!(there().await, before, "nothing follows");
        assert!(w.store.set_suspended(&w.write(minute(3)), false).await.expect("resume"));
    }
}

pub async fn ticks_come_before_or_after_a_delete(w: &World) {
    for _ in 0..ROUNDS {
        let id = w.schedule().await;
        let firing = w.firing(id).await;
        let (store, fence) = (w.store.clone(), w.fence);
        let leader = w.spawn(async move { store.fire(&[fence], minute(1), &[firing]).await });
        w.store.delete_schedule(&w.write(minute(1)), id).await.expect("delete");
        leader.await.expect("fire");
        let job = w.store.job(w.account, JobId::of_tick(id, minute(1))).await.expect("read");
        assert!(job.is_none_or(|(job, _)| job.status == JobStatus::Failed));
    }
}

pub async fn a_cancel_and_an_end_agree(w: &World) {
    let id = w.schedule().await;
    for _ in 0..ROUNDS {
        let job = w.manual_job(id, minute(1)).await;
        let claimed = w.claim(minute(1), &[job]).await.remove(0);
        let end = w.completion(&claimed, None, AttemptEnd::Succeeded);
        let (store, write) = (w.store.clone(), w.write(minute(2)));
        let user = w.spawn(async move { store.cancel_job(&write, job).await });
        // The cancellation may hold the job's row: then the end is committed again, as executors do.
        let mut results = w.commit(minute(2), std::slice::from_ref(&end)).await.results;
        while results == [CompletionResult::Busy] {
            results = w.commit(minute(2), std::slice::from_ref(&end)).await.results;
        }
        assert_eq!(results, [CompletionResult::Applied(JobStatus::Success)]);
        let cancelled = user.await.expect("cancel");
        assert!(matches!(cancelled, Cancelled::Done(_) | Cancelled::Finished));
        assert_eq!(w.status(job).await, JobStatus::Success, "final");
    }
    assert!(w.store.aborts().await.expect("read").jobs.is_empty());
}

pub async fn a_cancel_and_a_claim_agree(w: &World) {
    let id = w.schedule().await;
    for _ in 0..ROUNDS {
        let job = w.manual_job(id, minute(1)).await;
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        let user = w.spawn(async move { store.cancel_job(&write, job).await });
        let claimed = w.claim(minute(1), &[job]).await;
        user.await.expect("cancel");
        if claimed.is_empty() {
            assert_eq!(w.status(job).await, JobStatus::Failed);
        } else {
            assert_eq!(w.status(job).await, JobStatus::Running);
            assert_eq!(w.store.aborts().await.expect("read").jobs, [job]);
            w.commit(minute(2), &[w.completion(&claimed[0], None, AttemptEnd::Succeeded)]).await;
        }
    }
}

pub async fn writes_that_fail_do_not_touch_others(w: &World) {
    let taken = w.schedule().await;
    let writes = (0..40).map(|number| {
        let new = w.new_schedule();
        let new = if number % 2 == 0 { new } else { NewSchedule { id: taken, ..new } };
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        w.spawn(async move {
            let before = NewSchedule { name: "whole".into(), ..new.clone() };
            let outcome = store.create_schedules(&write, &[before], None).await;
            (new.id, outcome.is_ok())
        })
    });
    for done in join_all(writes).await {
        let (id, succeeded) = done;
        assert_eq!(succeeded, id != taken);
        assert_eq!(w.read(id).await.name == "whole", succeeded);
    }
    assert_eq!(w.store.usage(w.account, minute(1)).await.expect("count").schedules, 21);
}
