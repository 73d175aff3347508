use punctual::domain::audit::{Actor, Author, Origin, ShortName};
use punctual::domain::schedule::{Definition, UnreadableFields};
use punctual::domain::{KeyId, ScheduleId, Timestamp, VersionId};
use punctual::store::{NewVersion, PrunedRows, ScheduleChangeResult, ScheduleState, VersionPage};

use super::world::{HOST, World, definition, minute};

async fn list(w: &World, id: ScheduleId, from: Option<VersionId>, limit: u32) -> VersionPage {
    w.store.schedule_versions(w.account, id, from, limit).await.expect("list")
}

fn authors(page: &VersionPage) -> Vec<Option<&str>> {
    page.versions.iter().map(|one| one.author.as_deref()).collect()
}

/// Returns the definition of the version that calls this endpoint.
fn calling(endpoint: &str) -> Definition {
    Definition { endpoint: endpoint.into(), ..definition() }
}

fn operator() -> Actor {
    Actor::Operator(ShortName::new("bob"))
}

/// Gives a schedule a new version at a time, by an author.
async fn redefine(w: &World, id: ScheduleId, now: Timestamp, actor: Actor, new: Definition) {
    let version = VersionId::new(now, w.random.bits());
    let version = NewVersion { id: version, definition: new, host: HOST };
    let change = ScheduleState { version: Some(version), ..w.change(id).await };
    let mut write = w.write(now);
    write.author = Author { actor, origin: Origin::Service };
    let changed = w.store.change_schedule(&write, id, &change).await.expect("change");
    assert!(matches!(changed, ScheduleChangeResult::Done(_)));
}

pub async fn they_are_listed_newest_first_with_their_authors(w: &World) {
    let [id, other] = [w.schedule().await, w.schedule().await];
    let key = Actor::Key(KeyId::new(minute(0), 1));
    redefine(w, id, minute(2), key, calling("https://b.example")).await;
    // Neither a change without a new version nor one of another schedule counts.
    let rename = ScheduleState { name: "renamed".into(), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(3)), id, &rename).await.expect("change");
    redefine(w, other, minute(4), operator(), calling("https://x.example")).await;
    redefine(w, id, minute(4), operator(), calling("https://c.example")).await;

    let all = list(w, id, None, 10).await;
    assert_eq!(all.total, 3);
    let key = key.to_string();
    assert_eq!(authors(&all), [Some("operator:bob"), Some(key.as_str()), Some("service")]);
    let versions: Vec<_> = all.versions.iter().map(|one| &one.version).collect();
    assert!(versions.iter().all(|version| version.schedule == id));
    assert!(versions.iter().all(|version| version.unreadable == UnreadableFields::default()));
    assert_eq!(versions[0].id, w.read(id).await.version, "the current one");
    let definitions: Vec<_> = versions.iter().map(|version| version.definition.clone()).collect();
    let expected = [calling("https://c.example"), calling("https://b.example"), definition()];
    assert_eq!(definitions, expected, "opened");
    let times: Vec<_> = versions.iter().map(|one| (one.created_at, one.retired_at)).collect();
    let [first, second, third] = [0, 2, 4].map(minute);
    let expected = [(third, None), (second, Some(third)), (first, Some(second))];
    assert_eq!(times, expected);
}

pub async fn they_are_listed_in_pages(w: &World) {
    let id = w.schedule().await;
    for number in 1..=6 {
        let endpoint = format!("https://{number}.example");
        redefine(w, id, minute(number), operator(), calling(&endpoint)).await;
    }
    let all = list(w, id, None, 10).await;
    assert_eq!((all.versions.len(), all.total), (7, 7));
    for from in 0..7 {
        let first = all.versions[from].version.id;
        let page = list(w, id, Some(first), 3).await;
        assert_eq!(page.versions, all.versions[from..7.min(from + 3)]);
        assert_eq!(page.total, 7);
    }
    let before = VersionId::from_bytes([0; 16]);
    assert_eq!(list(w, id, Some(before), 3).await.versions, []);
    let none = list(w, id, None, 0).await;
    assert_eq!((none.versions, none.total), (vec![], 7), "only counted");
}

pub async fn they_go_when_no_job_needs_them(w: &World) {
    let id = w.schedule().await;
    redefine(w, id, minute(2), operator(), calling("https://b.example")).await;
    let both = list(w, id, None, 10).await.versions;
    assert_eq!(both.len(), 2);
    let pruned = w.store.prune(minute(3), 10).await.expect("prune");
    assert_eq!(pruned, PrunedRows { days: 0, jobs: 0, skips: 0, versions: 1 });
    let left = list(w, id, None, 10).await;
    assert_eq!((left.versions, left.total), (both[..1].to_vec(), 1));
    // The entries of the audit log are deleted earlier or later than the versions.
    w.store.prune_audit_log(minute(9), 100).await.expect("prune");
    assert_eq!(authors(&list(w, id, None, 10).await), [None]);
}

pub async fn those_of_others_and_of_deleted_schedules_are_not_there(w: &World) {
    let id = w.schedule().await;
    let nothing = VersionPage { versions: vec![], total: 0 };
    let foreign = w.store.schedule_versions(w.foreign, id, None, 10).await.expect("list");
    assert_eq!(foreign, nothing);
    assert_eq!(list(w, ScheduleId::new(minute(0), 1), None, 10).await, nothing);
    assert_eq!(list(w, id, None, 10).await.total, 1);
    assert!(w.store.delete_schedule(&w.write(minute(1)), id).await.expect("delete"));
    assert_eq!(list(w, id, None, 10).await, nothing);
}

pub async fn rows_of_a_deleted_account_are_not_found(w: &World) {
    let id = w.schedule().await;
    assert!(w.store.delete_account(&w.write(minute(1))).await.expect("delete"));
    assert_eq!(list(w, id, None, 10).await, VersionPage { versions: vec![], total: 0 });
}
