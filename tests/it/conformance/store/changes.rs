use std::time::Duration;

use punctual::domain::ScheduleId;
use punctual::domain::schedule::{CatchUpPolicy, Definition, OverlapPolicy, PauseNote};
use punctual::store::{ExpectedState, ScheduleChangeResult, ScheduleState};

use super::world::{World, definition, minute, soon};

pub async fn a_change_replaces_everything(w: &World) {
    let id = w.schedule_with(|new| new.description = Some("old".into())).await;
    let before = w.read(id).await;
    let definition =
        Definition { endpoint: "https://new.example".into(), body: None, ..definition() };
    let version = w.new_version(definition.clone());
    let change = ScheduleState {
        name: "renamed".into(),
        description: None,
        version: Some(version.clone()),
        overlap_policy: OverlapPolicy::Skip,
        catch_up_policy: CatchUpPolicy::All,
        next_tick: Some(minute(30)),
        ..w.change(id).await
    };
    let changed = w.store.change_schedule(&w.write(minute(1)), id, &change).await.expect("change");
    assert_eq!(changed, ScheduleChangeResult::Done(vec![]));
    let read = w.read(id).await;
    assert_eq!((read.name.as_str(), read.description), ("renamed", None));
    assert_eq!((read.version, read.definition), (version.id, definition));
    assert_eq!(read.overlap_policy, OverlapPolicy::Skip);
    assert_eq!(read.catch_up_policy, CatchUpPolicy::All);
    assert_eq!(read.next_tick, Some(minute(30)));
    assert_eq!((read.created_at, read.updated_at), (minute(0), minute(1)));
    assert!(read.revision > before.revision);
    let missing = ScheduleId::new(minute(0), 1);
    let changed = w.store.change_schedule(&w.write(minute(1)), missing, &change).await;
    assert_eq!(changed.expect("change"), ScheduleChangeResult::NotFound);
}

pub async fn a_job_keeps_the_version_it_was_made_with(w: &World) {
    let id = w.schedule().await;
    let old = w.tick_job(id).await;
    let new = Definition { endpoint: "https://new.example".into(), max_retries: 1, ..definition() };
    let change = ScheduleState { version: Some(w.new_version(new)), ..w.change(id).await };
    w.store.change_schedule(&w.write(soon(minute(1))), id, &change).await.expect("change");
    let young = w.tick_job(id).await;
    let claimed = w.claim(soon(minute(2)), &[old, young]).await;
    let of = |job| claimed.iter().find(|claimed| claimed.job == job).expect("claimed");
    assert_eq!((of(old).definition.clone(), of(old).max_attempts), (definition(), 3));
    assert_eq!(of(young).definition.endpoint, "https://new.example");
    assert_eq!(of(young).max_attempts, 1);
    assert_eq!(w.job(old).await.endpoint, "https://example.com/hook");
    assert_eq!(w.job(young).await.endpoint, "https://new.example");
}

pub async fn an_old_read_is_stale(w: &World) {
    let id = w.schedule().await;
    let old = w.change(id).await;
    let rename = ScheduleState { name: "first".into(), ..old.clone() };
    let changed = w.store.change_schedule(&w.write(minute(1)), id, &rename).await;
    assert_eq!(changed.expect("change"), ScheduleChangeResult::Done(vec![]));
    let late = ScheduleState { name: "second".into(), ..old };
    let changed = w.store.change_schedule(&w.write(minute(1)), id, &late).await;
    assert_eq!(changed.expect("change"), ScheduleChangeResult::Stale);
    assert_eq!(w.read(id).await.name, "first");
}

pub async fn a_tick_fired_in_between_makes_it_stale(w: &World) {
    let id = w.schedule().await;
    let change = ScheduleState { next_tick: Some(minute(1)), ..w.change(id).await };
    w.tick_job(id).await;
    let changed = w.store.change_schedule(&w.write(minute(2)), id, &change).await;
    assert_eq!(changed.expect("change"), ScheduleChangeResult::Stale);
    assert_eq!(w.read(id).await.next_tick, Some(minute(2)));
}

pub async fn disabling_stops_ticks(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    // A disabled schedule has no next tick, so it is not stored.
    let change = ScheduleState { is_enabled: false, ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(1)), id, &change).await.expect("change");
    assert_eq!(w.read(id).await.next_tick, None);
    let done = w.fire(soon(minute(1)), &[firing]).await;
    assert_eq!((done.tickets.len(), done.stale), (0, vec![id]));
    assert!(w.store.next_ticks(w.fence.shard, None, 10).await.expect("read").is_empty());

    let enable =
        ScheduleState { is_enabled: true, next_tick: Some(minute(9)), ..w.change(id).await };
    let late = minute(8).plus(Duration::from_secs(1));
    w.store.change_schedule(&w.write(late), id, &enable).await.expect("change");
    assert_eq!(w.read(id).await.next_tick, Some(minute(9)));
    w.tick_job(id).await;
}

pub async fn the_note_of_a_pause_ends_with_it(w: &World) {
    let id = w.schedule().await;
    assert_eq!(w.read(id).await.pause, None);
    let note =
        |text: &str| Some(PauseNote { text: text.into(), author: "usr_1".into(), at: minute(1) });
    for pause in [note("a \u{1f6e0} 'b'"), note("c"), None, note("d")] {
        let change =
            ScheduleState { is_enabled: false, pause: pause.clone(), ..w.change(id).await };
        w.store.change_schedule(&w.write(minute(1)), id, &change).await.expect("change");
        assert_eq!(w.read(id).await.pause, pause);
    }
    // An enabled schedule has no note, even if the change keeps it.
    let enable =
        ScheduleState { is_enabled: true, next_tick: Some(minute(9)), ..w.change(id).await };
    assert!(enable.pause.is_some());
    w.store.change_schedule(&w.write(minute(1)), id, &enable).await.expect("change");
    assert_eq!(w.read(id).await.pause, None);
}

pub async fn of_many_at_once_one_wins(w: &World) {
    let id = w.schedule().await;
    let expected = w.change(id).await.expected;
    assert_eq!(expected.next_tick, Some(minute(1)));
    let base = w.change(id).await;
    let attempts = (0..16).map(|number| {
        let change = ScheduleState { name: format!("name {number}"), ..base.clone() };
        let write = w.write(minute(1));
        async move { w.store.change_schedule(&write, id, &change).await.expect("change") }
    });
    let outcomes = futures_util::future::join_all(attempts).await;
    let done =
        outcomes.iter().filter(|outcome| matches!(outcome, ScheduleChangeResult::Done(_))).count();
    let stale = outcomes.iter().filter(|outcome| **outcome == ScheduleChangeResult::Stale).count();
    assert_eq!((done, stale), (1, 15));
    let winner =
        outcomes.iter().position(|outcome| matches!(outcome, ScheduleChangeResult::Done(_)));
    let read = w.read(id).await;
    assert_eq!(Some(read.name), winner.map(|number| format!("name {number}")));
    assert_eq!(
        ExpectedState { revision: read.revision, next_tick: read.next_tick },
        ExpectedState { revision: expected.revision + 1, next_tick: expected.next_tick }
    );
}
