use punctual::domain::ScheduleId;
use punctual::domain::job::JobStatus;
use punctual::domain::schedule::OverlapPolicy;
use punctual::domain::ticket::Ticket;
use punctual::domain::{JobId, Timestamp};
use punctual::store::{AttemptEnd, ScheduleChangeResult, ScheduleState};

use super::overlap::{overlaps, with_policy};
use super::world::{World, minute, soon};

async fn change_policy(
    w: &World,
    id: ScheduleId,
    to: OverlapPolicy,
    now: Timestamp,
) -> Vec<Ticket> {
    let change = ScheduleState { overlap_policy: to, ..w.change(id).await };
    match w.store.change_schedule(&w.write(now), id, &change).await.expect("change") {
        ScheduleChangeResult::Done(tickets) => tickets,
        other => panic!("{other:?}"),
    }
}

pub async fn away_from_allow_the_newest_unfinished_becomes_active(w: &World) {
    let id = with_policy(w, OverlapPolicy::Allow).await;
    let older = w.tick_job(id).await;
    let newer = w.tick_job(id).await;
    let finished = w.tick_job(id).await;
    w.run(soon(minute(3)), finished, AttemptEnd::Succeeded).await;
    w.manual_job(id, soon(minute(3))).await;
    assert!(change_policy(w, id, OverlapPolicy::Skip, soon(minute(3))).await.is_empty());
    w.run(minute(4), older, AttemptEnd::Succeeded).await;
    assert!(w.fire_next(id).await.is_empty());
    assert_eq!(overlaps(w, id).await, 1);
    w.run(minute(5), newer, AttemptEnd::Succeeded).await;
    w.tick_job(id).await;

    let idle = with_policy(w, OverlapPolicy::Allow).await;
    change_policy(w, idle, OverlapPolicy::Skip, minute(0)).await;
    w.tick_job(idle).await;
}

pub async fn to_allow_the_held_one_starts(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let active = w.tick_job(id).await;
    assert!(w.fire_next(id).await.is_empty());
    let held = JobId::of_tick(id, minute(2));
    let tickets = change_policy(w, id, OverlapPolicy::Allow, minute(3)).await;
    assert_eq!(tickets.len(), 1);
    assert_eq!((tickets[0].job, tickets[0].start), (held, minute(3)));
    w.tick_job(id).await;
    let committed = w.run(minute(4), active, AttemptEnd::Succeeded).await;
    assert!(committed.tickets.is_empty(), "it has started already");
    assert_eq!(w.claim(minute(4), &[held]).await.len(), 1);
    assert!(change_policy(w, id, OverlapPolicy::Allow, minute(5)).await.is_empty());
}

pub async fn from_queue_to_skip_the_held_one_still_follows(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let active = w.tick_job(id).await;
    assert!(w.fire_next(id).await.is_empty());
    let held = JobId::of_tick(id, minute(2));
    assert!(change_policy(w, id, OverlapPolicy::Skip, soon(minute(2))).await.is_empty());
    assert!(w.fire_next(id).await.is_empty());
    assert_eq!(overlaps(w, id).await, 1);
    let committed = w.run(minute(4), active, AttemptEnd::Succeeded).await;
    assert_eq!(committed.tickets.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [held]);
    assert!(w.fire_next(id).await.is_empty(), "it is the active one");
    assert_eq!(w.status(held).await, JobStatus::Pending);
}
