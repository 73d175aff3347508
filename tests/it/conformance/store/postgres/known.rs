//! Versions that are known are not read.

use punctual::domain::schedule::Definition;
use punctual::domain::{ScheduleId, Timestamp};

use super::super::world::{World, definition, minute, soon};
use super::world;
use crate::harness::database::{Database, run};

/// Where the job goes that is fired at an instant.
async fn endpoint(w: &World, id: ScheduleId, at: Timestamp) -> String {
    let firing = [w.firing(id).await];
    let fired = w.store.fire_and_claim(w.fence, &w.claim_at(soon(at)), &firing).await;
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
    // What nobody else does.
    let other = "https://example.com/other";
    let spoil = format!("UPDATE schedule_versions SET endpoint = '{other}'");
    run(&mut database.beside().await, &spoil).await;
    assert_eq!(endpoint(&w, fired, minute(2)).await, definition().endpoint);
    assert_eq!(endpoint(&w, signing, minute(2)).await, other);
    assert_eq!(endpoint(&w, unfired, minute(1)).await, other);
}
