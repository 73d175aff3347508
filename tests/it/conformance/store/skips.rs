use punctual::domain::ScheduleId;
use punctual::domain::schedule::{SKIP_COUNT_CAP, Skip, SkipReason};
use punctual::store::{Firing, ScheduleState, SkipQuery, TickRange};

use super::world::{World, minute, soon};

/// Returns a firing whose tick becomes a skip.
async fn skipping(w: &World, id: ScheduleId, count: u32, reason: SkipReason) -> Firing {
    let firing = w.firing(id).await;
    let range = TickRange { first: firing.tick, last: firing.tick, count };
    Firing { jobs: vec![], skips: vec![(range, reason)], ..firing }
}

async fn skip_next(w: &World, id: ScheduleId, count: u32, reason: SkipReason) {
    let firing = skipping(w, id, count, reason).await;
    let done = w.fire(soon(firing.tick), &[firing]).await;
    assert_eq!((done.tickets.len(), done.advanced.len()), (0, 1));
}

fn skip(first: i64, last: i64, count: u32, reason: SkipReason) -> Skip {
    let reason = reason.as_str().to_owned();
    Skip { first: minute(first), last: minute(last), count, reason }
}

pub async fn consecutive_ones_are_one_range(w: &World) {
    let id = w.schedule().await;
    for _ in 0..3 {
        skip_next(w, id, 1, SkipReason::CatchUp).await;
        // A triggered job has no tick, so it does not separate two skips.
        w.manual_job(id, soon(minute(2))).await;
    }
    assert_eq!(w.skips(id).await, [skip(1, 3, 3, SkipReason::CatchUp)]);
}

pub async fn a_job_or_another_reason_begins_a_new_range(w: &World) {
    let id = w.schedule().await;
    skip_next(w, id, 1, SkipReason::CatchUp).await;
    w.tick_job(id).await;
    skip_next(w, id, 1, SkipReason::CatchUp).await;
    skip_next(w, id, 1, SkipReason::Quota).await;
    skip_next(w, id, 1, SkipReason::CatchUp).await;
    skip_next(w, id, 1, SkipReason::CatchUp).await;
    let expected = [
        skip(5, 6, 2, SkipReason::CatchUp),
        skip(4, 4, 1, SkipReason::Quota),
        skip(3, 3, 1, SkipReason::CatchUp),
        skip(1, 1, 1, SkipReason::CatchUp),
    ];
    assert_eq!(w.skips(id).await, expected);
}

pub async fn the_count_stops_at_its_cap(w: &World) {
    let id = w.schedule().await;
    skip_next(w, id, SKIP_COUNT_CAP - 1, SkipReason::CatchUp).await;
    assert_eq!(w.skips(id).await[0].count, SKIP_COUNT_CAP - 1);
    skip_next(w, id, 5, SkipReason::CatchUp).await;
    assert_eq!(w.skips(id).await, [skip(1, 2, SKIP_COUNT_CAP, SkipReason::CatchUp)]);
}

pub async fn superseded_ticks_are_recorded(w: &World) {
    let id = w.schedule().await;
    let range = TickRange { first: minute(1), last: minute(5), count: 5 };
    let change =
        ScheduleState { next_tick: Some(minute(9)), superseded: Some(range), ..w.change(id).await };
    w.store.change_schedule(&w.write(soon(minute(5))), id, &change).await.expect("change");
    assert_eq!(w.skips(id).await, [skip(1, 5, 5, SkipReason::Superseded)]);
}

pub async fn they_are_listed_newest_first_in_pages(w: &World) {
    let id = w.schedule().await;
    let other = w.schedule().await;
    skip_next(w, other, 1, SkipReason::Quota).await;
    for number in 1..=7 {
        let reason = if number % 2 == 0 { SkipReason::Quota } else { SkipReason::CatchUp };
        skip_next(w, id, 1, reason).await;
    }
    let all = w.skips(id).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by_key(|skip| std::cmp::Reverse(skip.first)));
    let list = async |query: SkipQuery| w.store.skips(w.account, id, &query).await.expect("list");
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = list(SkipQuery { from: None, to: None, after, limit: 3 }).await;
        seen.extend(page.skips);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
    let touching = |from, to| SkipQuery { from, to, after: None, limit: 100 };
    let some = list(touching(Some(minute(3)), Some(minute(5)))).await;
    assert_eq!((some.skips, some.next), (all[2..5].to_vec(), None));
    assert_eq!(list(touching(Some(soon(minute(7))), None)).await.skips, []);
    assert_eq!(list(touching(None, Some(minute(1)))).await.skips, [all[6].clone()]);

    w.store.delete_schedule(&w.write(minute(9)), id).await.expect("delete");
    assert!(w.skips(id).await.is_empty(), "of a schedule that exists");
}
