//! Cached versions are not read again.

use punctual::domain::schedule::Definition;
use punctual::domain::{ScheduleId, Timestamp};

use super::super::world::{World, definition, minute, soon};
use super::world;
use crate::harness::database::{Database, run};

/// Returns the endpoint of the job that is fired at an instant.
async fn endpoint(w: &World, id: ScheduleId, at: Timestamp) -> String {
    let firing = [w.firing(id).await];
    let fired = w.store.fire_and_claim(&[w.fence], &w.claim_at(soon(at)), &firing).await;
    let (_, mut claims) = fired.expect("fire and claim");
    claims.taken.swap_remove(0).definition.endpoint
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_is_read_once_unless_its_requests_are_signed() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let signed = Definition { sign_requests: true, ..definition() };
    let signing = w.schedule_with(|new| new.version = w.new_version(signed)).await;
    let (fired, unfired) = (w.schedule().await, w.schedule().await);
    for id in [signing, fired] {
        assert_eq!(endpoint(&w, id, minute(1)).await, definition().endpoint);
    }
    // The service never changes a version in place.
    let other = "https://example.com/other";
    let spoil = format!("UPDATE schedule_versions SET endpoint = '{other}'");
    run(&mut database.second_connection().await, &spoil).await;
    assert_eq!(endpoint(&w, fired, minute(2)).await, definition().endpoint);
    assert_eq!(endpoint(&w, signing, minute(2)).await, other);
    assert_eq!(endpoint(&w, unfired, minute(1)).await, other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_cannot_be_opened_is_read_again() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let mut other_session = database.second_connection().await;
    // A sealed field cannot be opened in another column. A second swap restores the row.
    let swap = "UPDATE schedule_versions SET body = headers, headers = body";
    run(&mut other_session, swap).await;
    let firing = [w.firing(id).await];
    let fired = w.store.fire_and_claim(&[w.fence], &w.claim_at(soon(minute(1))), &firing).await;
    let (_, claims) = fired.expect("fire and claim");
    assert_eq!((claims.taken.len(), claims.unreadable.len()), (0, 1));
    run(&mut other_session, swap).await;
    assert_eq!(endpoint(&w, id, minute(2)).await, definition().endpoint);
}
