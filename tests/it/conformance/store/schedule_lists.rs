use punctual::domain::ScheduleId;
use punctual::domain::schedule::{Definition, HttpMethod, Schedule};
use punctual::store::{
    AttemptEnd, NewSchedule, RecurrenceCount, SchedulePage, ScheduleQuery, ScheduleSort,
    ScheduleState, SortField, SortValue,
};

use super::world::{World, definition, every_schedule, failure, minute};

async fn list(w: &World, query: &ScheduleQuery) -> SchedulePage {
    w.store.schedules(w.account, query).await.expect("list")
}

/// Returns the names that a query lists, sorted by name.
async fn names(w: &World, query: ScheduleQuery) -> Vec<String> {
    let sort = ScheduleSort { field: SortField::Name, descending: false };
    let query = ScheduleQuery { sort, ..query };
    let page = list(w, &query).await;
    assert_eq!(page.total, page.schedules.len() as u64);
    page.schedules.into_iter().map(|schedule| schedule.name).collect()
}

/// Creates schedules with ties and missing values in every sort field.
async fn varied(w: &World) -> Vec<ScheduleId> {
    let mut ids = Vec::new();
    for (number, name) in ["b", "a", "B", "b", "ä", "", "b"].into_iter().enumerate() {
        let number = i64::try_from(number).expect("small");
        let mut new = NewSchedule { name: name.into(), ..w.new_schedule() };
        new.next_tick = Some(minute(1 + number % 2));
        new.is_enabled = number != 3 && number != 6;
        ids.push(new.id);
        w.store.create_schedules(&w.write(minute(number / 3)), &[new], None).await.expect("create");
    }
    // Two have run at the same time, and one later.
    for (number, at) in [(0, 20), (1, 20), (2, 21)] {
        let job = w.manual_job(ids[number], minute(at)).await;
        w.run(minute(at), job, AttemptEnd::Succeeded).await;
    }
    ids
}

/// Returns the sort key of a schedule in comparable form.
fn key(schedule: &Schedule, field: SortField) -> (SortValue, (String, i64)) {
    let time = |time: Option<punctual::domain::Timestamp>| {
        (SortValue::Time(time), (String::new(), time.map_or(-1, |time| time.as_millis())))
    };
    match field {
        SortField::Name => (SortValue::Text(schedule.name.clone()), (schedule.name.clone(), 0)),
        SortField::NextTick => time(schedule.next_tick),
        SortField::LastRun => time(schedule.last_run_at),
        SortField::CreatedAt => time(Some(schedule.created_at)),
    }
}

pub async fn every_sort_pages_by_cursor_and_by_offset(w: &World) {
    let ids = varied(w).await;
    for field in [SortField::Name, SortField::NextTick, SortField::LastRun, SortField::CreatedAt] {
        for descending in [false, true] {
            let query =
                ScheduleQuery { sort: ScheduleSort { field, descending }, ..every_schedule() };
            let all = list(w, &query).await;
            assert_eq!((all.schedules.len(), all.total, all.has_more), (7, 7, false));
            let mut sorted = all.schedules.clone();
            sorted.sort_by_key(|schedule| (key(schedule, field).1, schedule.id));
            if descending {
                sorted.reverse();
            }
            assert_eq!(all.schedules, sorted, "{field:?} descending: {descending}");
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let query = ScheduleQuery { limit: 2, after: after.clone(), ..query.clone() };
                let page = list(w, &query).await;
                assert_eq!(page.total, 7, "the cursor does not change the total");
                let last = page.schedules.last().expect("a page is never empty");
                after = Some((key(last, field).0, last.id));
                seen.extend(page.schedules);
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(seen, sorted, "{field:?} descending: {descending}");
            let query = ScheduleQuery { limit: 3, offset: 3, ..query };
            let page = list(w, &query).await;
            assert_eq!((&page.schedules[..], page.has_more), (&sorted[3..6], true));
        }
    }
    let beyond = ScheduleQuery { offset: 7, ..every_schedule() };
    assert_eq!(
        list(w, &beyond).await,
        SchedulePage { schedules: vec![], total: 7, has_more: false }
    );
    assert_eq!(ids.len(), 7);
}

pub async fn filters_and_totals(w: &World) {
    w.schedule_with(|new| new.name = "one".into()).await;
    let get = Definition { http_method: HttpMethod::Get, ..definition() };
    let version = w.new_version(get.clone());
    w.schedule_with(|new| (new.name, new.version) = ("two".into(), version)).await;
    let version = w.new_version(get);
    w.schedule_with(|new| {
        (new.name, new.version, new.is_enabled) = ("three".into(), version, false);
    })
    .await;
    let query =
        |is_enabled, http_method| ScheduleQuery { is_enabled, http_method, ..every_schedule() };
    assert_eq!(names(w, query(Some(true), None)).await, ["one", "two"]);
    assert_eq!(names(w, query(Some(false), None)).await, ["three"]);
    assert_eq!(names(w, query(None, Some(HttpMethod::Get))).await, ["three", "two"]);
    assert_eq!(names(w, query(Some(true), Some(HttpMethod::Get))).await, ["two"]);
    assert!(names(w, query(None, Some(HttpMethod::Delete))).await.is_empty());
    let first = ScheduleQuery { limit: 1, ..query(Some(true), None) };
    let page = list(w, &first).await;
    assert_eq!((page.schedules.len(), page.total, page.has_more), (1, 2, true));
}

pub async fn failing_ones_have_failures_in_a_row(w: &World) {
    for (name, is_enabled, ends) in [
        ("failing", true, vec![AttemptEnd::Succeeded, AttemptEnd::Failed(failure())]),
        ("recovered", true, vec![AttemptEnd::Failed(failure()), AttemptEnd::Succeeded]),
        ("new", true, vec![]),
        ("paused", false, vec![AttemptEnd::Failed(failure())]),
    ] {
        let change = |new: &mut NewSchedule| (new.name, new.is_enabled) = (name.into(), is_enabled);
        let id = w.schedule_with(change).await;
        for (number, end) in (1..).zip(ends) {
            let job = w.manual_job(id, minute(number)).await;
            w.run(minute(number), job, end).await;
        }
    }
    let query = |is_failing| ScheduleQuery { is_failing, ..every_schedule() };
    assert_eq!(names(w, query(Some(true))).await, ["failing"]);
    assert_eq!(names(w, query(Some(false))).await, ["new", "paused", "recovered"]);
    let paused = ScheduleQuery { is_enabled: Some(false), ..query(Some(true)) };
    assert!(names(w, paused).await.is_empty(), "a paused schedule is not failing now");
    let latest = ScheduleSort { field: SortField::LastRun, descending: true };
    let page = list(w, &ScheduleQuery { sort: latest, limit: 1, ..query(Some(false)) }).await;
    assert_eq!((page.schedules[0].name.as_str(), page.total), ("recovered", 3));
    assert!(page.has_more);
}

pub async fn recurrences_are_counted_by_expression_and_timezone(w: &World) {
    for (cron_expression, timezone, is_enabled) in [
        ("0 9 * * *", "Europe/Berlin", true),
        ("* * * * *", "UTC", true),
        ("0 9 * * *", "UTC", true),
        ("0 9 * * *", "Europe/Berlin", true),
        ("* * * * *", "UTC", false),
    ] {
        let (cron_expression, timezone) = (cron_expression.into(), timezone.into());
        let version = w.new_version(Definition { cron_expression, timezone, ..definition() });
        w.schedule_with(|new| (new.version, new.is_enabled) = (version, is_enabled)).await;
    }
    let count = |cron_expression: &str, timezone: &str, schedules| RecurrenceCount {
        cron_expression: cron_expression.into(),
        timezone: timezone.into(),
        schedules,
    };
    let all = [
        count("0 9 * * *", "Europe/Berlin", 2),
        count("* * * * *", "UTC", 1),
        count("0 9 * * *", "UTC", 1),
    ];
    assert_eq!(w.store.recurrences(w.account, 10).await.expect("count"), all);
    assert_eq!(w.store.recurrences(w.account, 2).await.expect("count"), all[..2]);
    assert_eq!(w.store.recurrences(w.foreign, 10).await.expect("count"), []);
}

pub async fn contains_takes_no_patterns(w: &World) {
    for (name, description) in
        [("Nightly 100%", None), ("under_score", Some("Ünïcode BACK\\slash")), ("q'uote", None)]
    {
        w.schedule_with(|new| {
            (new.name, new.description) = (name.into(), description.map(String::from));
        })
        .await;
    }
    let found = async |text: &str| {
        names(w, ScheduleQuery { contains: Some(text.into()), ..every_schedule() }).await
    };
    assert_eq!(found("nightLY").await, ["Nightly 100%"]);
    assert_eq!(found("%").await, ["Nightly 100%"]);
    assert_eq!(found("_").await, ["under_score"]);
    assert_eq!(found("back\\SLASH").await, ["under_score"]);
    assert_eq!(found("ünïcode").await, [""; 0], "only ASCII letters are taken in any case");
    assert_eq!(found("Ünïcode").await, ["under_score"]);
    assert_eq!(found("q'u").await, ["q'uote"]);
    assert_eq!(found("EXAMPLE.com/hook").await.len(), 3);
    assert_eq!(found("").await.len(), 3);
    assert!(found("nothing").await.is_empty());
    assert!(found(&"%".repeat(100_000)).await.is_empty());
}

pub async fn the_endpoint_is_the_current_one(w: &World) {
    let id = w.schedule().await;
    let new = Definition { endpoint: "https://moved.example/".into(), ..definition() };
    let change = ScheduleState { version: Some(w.new_version(new)), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(1)), id, &change).await.expect("change");
    let query = |text: &str| ScheduleQuery { contains: Some(text.into()), ..every_schedule() };
    assert_eq!(list(w, &query("moved")).await.total, 1);
    assert_eq!(list(w, &query("/hook")).await.total, 0);
}

pub async fn a_page_ends_before_it_is_too_large(w: &World) {
    for _ in 0..3 {
        let large = Definition { body: Some("x".repeat(10_000)), ..definition() };
        let version = w.new_version(large);
        w.schedule_with(|new| new.version = version).await;
    }
    let query = |max_bytes, limit| ScheduleQuery { max_bytes, limit, ..every_schedule() };
    for (max_bytes, limit, expected) in [
        (25_000, 1_000, (2, true)),
        (5, 1_000, (1, true)),
        (100_000, 1_000, (3, false)),
        (25_000, 2, (2, true)),
    ] {
        let page = list(w, &query(max_bytes, limit)).await;
        assert_eq!((page.schedules.len(), page.has_more), expected, "{max_bytes} {limit}");
        assert_eq!(page.total, 3);
    }
}
