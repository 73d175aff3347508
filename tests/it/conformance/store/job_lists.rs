use punctual::domain::job::{JobStatus, Trigger};
use punctual::domain::schedule::SkipReason;
use punctual::domain::{JobId, Timestamp};
use punctual::store::{AttemptEnd, Firing, JobQuery, NewJob, TickJob, TickRange};

use super::world::{World, answered, every_job, failure, minute, soon};

pub async fn filters(w: &World) {
    let [one, two] = [w.schedule().await, w.schedule().await];
    let success = w.tick_job(one).await;
    let failed = w.tick_job(one).await;
    let manual = w.manual_job(one, minute(3)).await;
    let running = w.manual_job(two, minute(4)).await;
    let caught_up = {
        let firing = w.firing(two).await;
        let jobs = vec![TickJob { trigger: Trigger::CatchUp, ..firing.jobs[0] }];
        w.fire(minute(5), &[Firing { jobs, ..firing }]).await.tickets[0].job
    };
    w.run(soon(minute(1)), success, AttemptEnd::Succeeded).await;
    w.run(soon(minute(2)), failed, AttemptEnd::Failed(failure())).await;
    w.claim(minute(5), &[running]).await;
    let mut all = vec![success, failed, manual, running, caught_up];
    all.sort_by_key(|job| std::cmp::Reverse(*job));
    let in_order = |jobs: &[JobId]| -> Vec<JobId> {
        all.iter().copied().filter(|job| jobs.contains(job)).collect()
    };
    let query = |schedule, status, trigger| JobQuery { schedule, status, trigger, ..every_job() };
    use JobStatus::{Failed, Pending, Running, Success};
    for (query, expected) in [
        (query(None, None, None), in_order(&all)),
        (query(Some(one), None, None), in_order(&[success, failed, manual])),
        (query(None, Some(Pending), None), in_order(&[manual, caught_up])),
        (query(None, Some(Running), None), vec![running]),
        (query(None, Some(Success), None), vec![success]),
        (query(None, Some(Failed), None), vec![failed]),
        (query(None, None, Some(Trigger::Schedule)), in_order(&[success, failed])),
        (query(None, None, Some(Trigger::Manual)), in_order(&[manual, running])),
        (query(None, None, Some(Trigger::CatchUp)), vec![caught_up]),
        (query(None, None, Some(Trigger::Retry)), vec![]),
        (query(Some(one), Some(Pending), None), vec![manual]),
        (query(Some(two), Some(Pending), Some(Trigger::CatchUp)), vec![caught_up]),
        (query(Some(one), Some(Failed), Some(Trigger::Schedule)), vec![failed]),
        (query(None, Some(Failed), Some(Trigger::Manual)), vec![]),
        (query(None, Some(Running), Some(Trigger::Manual)), vec![running]),
        (query(Some(one), None, Some(Trigger::Manual)), vec![manual]),
    ] {
        let page = w.store.jobs(w.account, &query).await.expect("list");
        assert_eq!(w.listed(&query).await, expected, "{query:?}");
        assert_eq!((page.total, page.has_more), (expected.len() as u64, false), "{query:?}");
    }
}

pub async fn pages_by_cursor_and_by_offset(w: &World) {
    let id = w.schedule().await;
    for number in 0..7 {
        // Jobs at the same time are ordered by the rest of the id.
        w.manual_job(id, minute(number / 3)).await;
    }
    let all = w.listed(&every_job()).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by(|a, b| a > b));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = JobQuery { after, limit: 2, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        assert_eq!(page.total, 7, "the cursor does not change the total");
        seen.extend(page.jobs.iter().map(|job| job.id));
        after = seen.last().copied();
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, all);
    for status in [None, Some(JobStatus::Pending)] {
        let query = JobQuery { offset: 4, limit: 2, status, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        let ids: Vec<_> = page.jobs.iter().map(|job| job.id).collect();
        assert_eq!((ids, page.has_more), (all[4..6].to_vec(), true));
    }
    for (offset, limit, shown) in
        [(6, 2, 1), (0, 7, 7), (0, 8, 7), (7, 2, 0), (1_000_000_000, 2, 0)]
    {
        let query = JobQuery { offset, limit, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        assert_eq!((page.jobs.len(), page.total, page.has_more), (shown, 7, false), "{offset}");
    }
}

pub async fn time_bounds_are_inclusive(w: &World) {
    let id = w.schedule().await;
    for at in 1..=4 {
        w.manual_job(id, minute(at)).await;
    }
    let between = async |from: Option<Timestamp>, to: Option<Timestamp>| {
        let page = w.store.jobs(w.account, &JobQuery { from, to, ..every_job() }).await;
        let page = page.expect("list");
        assert_eq!(page.total, page.jobs.len() as u64);
        page.jobs.iter().map(|job| job.scheduled_run_at).collect::<Vec<_>>()
    };
    assert_eq!(between(Some(minute(2)), Some(minute(3))).await, [minute(3), minute(2)]);
    assert_eq!(between(Some(minute(4)), None).await, [minute(4)]);
    assert_eq!(between(None, Some(minute(1))).await, [minute(1)]);
    assert!(between(Some(minute(3)), Some(minute(2))).await.is_empty());
}

pub async fn the_total_stops_at_ten_thousand(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let jobs = (0..10_001)
        .map(|number| {
            let tick = Timestamp::from_millis(minute(1).as_millis() + number);
            TickJob { id: JobId::of_tick(id, tick), trigger: Trigger::CatchUp }
        })
        .collect();
    let none = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(none, SkipReason::CatchUp)];
    let done = w.fire(minute(2), &[Firing { jobs, skips, ..firing }]).await;
    assert_eq!(done.tickets.len(), 10_001);
    for status in [None, Some(JobStatus::Pending)] {
        let query = JobQuery { limit: 1, status, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        assert_eq!((page.total, page.has_more), (10_000, true));
        let last = JobQuery { offset: 9_999, limit: 9, ..query };
        let page = w.store.jobs(w.account, &last).await.expect("list");
        assert_eq!((page.jobs.len(), page.total, page.has_more), (2, 10_000, false));
    }
}

pub async fn responses_are_cut_at_a_character(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claimed = w.claim(minute(1), &[job]).await.remove(0);
    let end =
        w.completion(&claimed, Some(answered(200, "aé€😀".as_bytes())), AttemptEnd::Succeeded);
    w.commit(minute(1), &[end]).await;
    for (max_response_bytes, expected, truncated) in [
        (100, "aé€😀", false),
        (10, "aé€😀", false),
        (9, "aé€", true),
        (6, "aé€", true),
        (5, "aé", true),
        (1, "a", true),
        (0, "", true),
    ] {
        let query = JobQuery { max_response_bytes, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        let job = &page.jobs[0];
        assert_eq!(job.response.as_deref(), Some(expected), "{max_response_bytes}");
        assert_eq!(job.response_truncated, truncated, "{max_response_bytes}");
    }
    assert!(!w.job(job).await.response_truncated);
}

pub async fn a_page_ends_before_it_is_too_large(w: &World) {
    let id = w.schedule().await;
    for at in 1..=3 {
        let job = w.manual_job(id, minute(at)).await;
        let claimed = w.claim(minute(at), &[job]).await.remove(0);
        let body = vec![b'x'; 10_000];
        let end = w.completion(&claimed, Some(answered(200, &body)), AttemptEnd::Succeeded);
        w.commit(minute(at), &[end]).await;
    }
    for (max_bytes, expected) in [(25_000, (2, true)), (5, (1, true)), (100_000, (3, false))] {
        let query = JobQuery { max_bytes, ..every_job() };
        let page = w.store.jobs(w.account, &query).await.expect("list");
        assert_eq!((page.jobs.len(), page.has_more), expected, "{max_bytes}");
    }
    let other = w.schedule().await;
    let new = NewJob { id: JobId::new(minute(9), 1), schedule: other };
    w.store.create_job(&w.write(minute(9)), &new, None).await.expect("create");
    let cut = JobQuery { max_response_bytes: 10, max_bytes: 25_000, ..every_job() };
    let page = w.store.jobs(w.account, &cut).await.expect("list");
    assert_eq!((page.jobs.len(), page.has_more), (4, false), "the removed part does not count");
}
