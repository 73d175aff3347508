use std::time::Duration;

use punctual::domain::key::{KeyDigest, Scope};
use punctual::domain::plan::UNLIMITED;
use punctual::domain::{AccountId, JobId, KeyId};
use punctual::store::{Account, KeyCreated, KeyRotation, KeyUse, NewJob, NewKey, RotationResult};

use super::world::{World, minute};

pub fn new_key(number: u128) -> NewKey {
    NewKey {
        id: KeyId::new(minute(0), number),
        name: format!("key {number}"),
        scope: Scope::Write,
        digest: KeyDigest([7; 32]),
        expires_at: None,
    }
}

pub async fn names_are_unique(w: &World) {
    let id = |number| AccountId::new(minute(0), number);
    let write = w.write_for(id(8), minute(1));
    assert!(w.store.create_account(&write, "zoë", UNLIMITED).await.expect("create"));
    let again = w.write_for(id(9), minute(1));
    assert!(!w.store.create_account(&again, "zoë", UNLIMITED).await.expect("create"));
    let zoe = Account::new(id(8), "zoë", minute(1));
    assert_eq!(w.store.account(zoe.id).await.expect("read"), Some(zoe));
    assert_eq!(w.store.account(AccountId::new(minute(0), 9)).await.expect("read"), None);
    let accounts = w.store.accounts().await.expect("list");
    let names: Vec<_> = accounts.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["foreign", "own", "zoë"]);
}

pub async fn a_key_reads_back_and_is_listed_newest_first(w: &World) {
    let old = NewKey { scope: Scope::Read, expires_at: Some(minute(9)), ..new_key(1) };
    assert_eq!(
        KeyCreated::Done,
        w.store.create_key(&w.write(minute(0)), &old).await.expect("create")
    );
    assert_eq!(
        KeyCreated::Done,
        w.store.create_key(&w.write(minute(1)), &new_key(2)).await.expect("create")
    );
    let known = w.store.key(old.id).await.expect("read").expect("a key");
    assert_eq!((known.account, known.scope), (w.account, Scope::Read));
    assert!(known.digest.matches(&old.digest));
    assert_eq!((known.expires_at, known.revoked_at), (Some(minute(9)), None));
    assert_eq!(w.store.key(new_key(3).id).await.expect("read"), None);
    let keys = w.store.keys(w.account).await.expect("list");
    let listed: Vec<_> = keys.iter().map(|key| (key.id, key.name.as_str())).collect();
    assert_eq!(listed, [(new_key(2).id, "key 2"), (old.id, "key 1")]);
    assert_eq!((keys[1].created_at, keys[1].expires_at), (minute(0), Some(minute(9))));
}

pub async fn a_key_needs_an_account(w: &World) {
    let write = w.write_for(AccountId::new(minute(0), 77), minute(0));
    let missing = w.store.create_key(&write, &new_key(1)).await.expect("create");
    assert_eq!(missing, KeyCreated::NoSuchAccount);
    assert_eq!(w.store.key(new_key(1).id).await.expect("read"), None);
}

pub async fn revoking_is_for_good(w: &World) {
    let id = new_key(1).id;
    assert_eq!(
        KeyCreated::Done,
        w.store.create_key(&w.write(minute(0)), &new_key(1)).await.expect("create")
    );
    assert!(w.store.revoke_key(&w.write(minute(1)), id).await.expect("revoke"));
    assert!(w.store.revoke_key(&w.write(minute(2)), id).await.expect("revoke"));
    assert!(!w.store.revoke_key(&w.write(minute(2)), new_key(2).id).await.expect("revoke"));
    let known = w.store.key(id).await.expect("read").expect("a key");
    assert_eq!(known.revoked_at, Some(minute(1)));
    assert_eq!(w.store.keys(w.account).await.expect("list")[0].revoked_at, Some(minute(1)));
}

fn rotation(old: u128, new: u128) -> KeyRotation {
    let (old, new) = (new_key(old).id, new_key(new).id);
    KeyRotation { old, old_expires_at: minute(60), new, digest: KeyDigest([8; 32]) }
}

pub async fn a_rotated_key_and_its_successor_overlap(w: &World) {
    let old = NewKey { scope: Scope::Read, ..new_key(1) };
    w.store.create_key(&w.write(minute(0)), &old).await.expect("create");
    let short = NewKey { expires_at: Some(minute(40)), ..new_key(2) };
    w.store.create_key(&w.write(minute(0)), &short).await.expect("create");
    let rotate = async |old, new| {
        let write = w.write(minute(30));
        w.store.rotate_key(&write, &rotation(old, new)).await.expect("rotate")
    };
    assert_eq!(
        (rotate(1, 3).await, rotate(2, 4).await),
        (RotationResult::Done, RotationResult::Done)
    );
    let keys = w.store.keys(w.account).await.expect("list");
    let of = |number| keys.iter().find(|key| key.id == new_key(number).id).expect("a key");
    assert_eq!((of(1).expires_at, of(3).expires_at), (Some(minute(60)), None));
    assert_eq!((of(3).scope, of(3).name.as_str()), (Scope::Read, "key 1"));
    assert_eq!(of(3).created_by.as_deref(), Some("service"));
    // A rotation does not extend a key that expires soon. The new key gets the lifetime that the
    // old one had.
    assert_eq!((of(2).expires_at, of(4).expires_at), (Some(minute(40)), Some(minute(70))));
    let known = w.store.key(new_key(3).id).await.expect("read").expect("a key");
    assert!(known.digest.matches(&KeyDigest([8; 32])));
}

/// A key in its overlap is rotated again, because its owner has lost the new key. The new one gets
/// the lifetime of the original key.
pub async fn a_key_that_is_rotated_twice_is_followed_by_what_it_was_made_as(w: &World) {
    let long = NewKey { expires_at: Some(minute(1_000)), ..new_key(2) };
    for key in [new_key(1), long] {
        w.store.create_key(&w.write(minute(0)), &key).await.expect("create");
    }
    for (old, new) in [(1, 3), (1, 4), (2, 5), (2, 6)] {
        let write = w.write(minute(30));
        let rotated = w.store.rotate_key(&write, &rotation(old, new)).await.expect("rotate");
        assert_eq!(rotated, RotationResult::Done);
    }
    let keys = w.store.keys(w.account).await.expect("list");
    let of = |number| keys.iter().find(|key| key.id == new_key(number).id).expect("a key");
    assert_eq!((of(3).expires_at, of(4).expires_at), (None, None));
    assert_eq!((of(5).expires_at, of(6).expires_at), (Some(minute(1_030)), Some(minute(1_030))));
}

/// An account with the maximum number of keys can replace a key at once, but not with an overlap.
pub async fn a_full_account_can_rotate_without_an_overlap(w: &World) {
    for number in 1..=10 {
        w.store.create_key(&w.write(minute(0)), &new_key(number)).await.expect("create");
    }
    // A repeated rotation without an overlap would find that the old key has ended.
    let rotate = async |rotation| {
        w.steady.rotate_key(&w.write(minute(30)), &rotation).await.expect("rotate")
    };
    assert_eq!(rotate(rotation(1, 11)).await, RotationResult::TooMany);
    assert_eq!(rotate(rotation(99, 12)).await, RotationResult::NotFound);
    let at_once = |old, new| KeyRotation { old_expires_at: minute(30), ..rotation(old, new) };
    assert_eq!(rotate(at_once(1, 13)).await, RotationResult::Done);
    assert_eq!(rotate(at_once(1, 14)).await, RotationResult::NotFound, "it works no longer");
    assert_eq!(w.store.usage(w.account, minute(30)).await.expect("read").keys, 10);
}

pub async fn only_a_key_of_the_account_that_works_is_rotated(w: &World) {
    let expired = NewKey { expires_at: Some(minute(30)), ..new_key(1) };
    w.store.create_key(&w.write(minute(0)), &expired).await.expect("create");
    w.store.create_key(&w.write(minute(0)), &new_key(2)).await.expect("create");
    w.store.create_key(&w.write(minute(0)), &new_key(3)).await.expect("create");
    w.store.revoke_key(&w.write(minute(1)), new_key(2).id).await.expect("revoke");
    for (account, old) in [(w.account, 1), (w.account, 2), (w.account, 9), (w.foreign, 3)] {
        let write = w.write_for(account, minute(30));
        let rotated = w.store.rotate_key(&write, &rotation(old, 10)).await.expect("rotate");
        assert_eq!(rotated, RotationResult::NotFound, "{old}");
    }
    assert_eq!(w.store.keys(w.account).await.expect("list").len(), 3);
}

pub async fn rotations_at_once_never_make_too_many_keys(w: &World) {
    for number in 1..=8 {
        w.store.create_key(&w.write(minute(0)), &new_key(number)).await.expect("create");
    }
    let mut rotations = Vec::new();
    for number in 1..=5 {
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        let rotation = rotation(number, 100 + number);
        rotations.push(w.spawn(async move { store.rotate_key(&write, &rotation).await }));
    }
    let mut done = 0;
    for rotated in rotations {
        done += usize::from(rotated.await.expect("rotate") == RotationResult::Done);
    }
    assert_eq!((done, w.store.keys(w.account).await.expect("list").len()), (2, 10));
}

pub async fn usage_counts_this_month(w: &World) {
    let schedule = w.schedule().await;
    w.schedule_with(|new| new.is_enabled = false).await;
    for number in 1..=3 {
        w.store.create_key(&w.write(minute(0)), &new_key(number)).await.expect("create");
    }
    w.store.revoke_key(&w.write(minute(1)), new_key(2).id).await.expect("revoke");
    let month = "2024-05-01T00:00:00Z".parse().expect("an instant");
    let last_month = "2024-04-30T23:59:59.999Z".parse().expect("an instant");
    for at in [last_month, month, minute(1)] {
        let new = NewJob { id: JobId::new(at, w.random.bits()), schedule };
        let made = w.store.create_job(&w.write(at), &new, None).await.expect("create");
        made.ticket().expect("a schedule");
    }
    let usage = w.store.usage(w.account, minute(2)).await.expect("count");
    assert_eq!((usage.schedules, usage.keys, usage.jobs_reserved), (2, 2, None));
    assert_eq!(w.store.jobs_made(w.account, minute(2)).await.expect("count"), 2);
    let june = minute(0).plus(Duration::from_secs(30 * 86_400));
    assert_eq!(w.store.jobs_made(w.account, june).await.expect("count"), 0);
    let foreign = w.store.usage(w.foreign, minute(2)).await.expect("count");
    assert_eq!((foreign.schedules, foreign.keys), (0, 0));
    assert_eq!(w.store.jobs_made(w.foreign, minute(2)).await.expect("count"), 0);
}

pub async fn the_last_use_of_keys_is_kept(w: &World) {
    for (account, number) in [(w.account, 1), (w.account, 2), (w.foreign, 3)] {
        let made = w.store.create_key(&w.write_for(account, minute(0)), &new_key(number)).await;
        assert_eq!(made.expect("create"), KeyCreated::Done);
    }
    let note = async |uses: &[(AccountId, u128, i64)]| {
        let uses: Vec<_> = uses
            .iter()
            .map(|&(account, number, at)| KeyUse {
                account,
                key: new_key(number).id,
                at: minute(at),
            })
            .collect();
        w.store.note_key_uses(&uses).await.expect("note");
    };
    let used = async |account| {
        let keys = w.store.keys(account).await.expect("list");
        keys.iter().rev().map(|key| key.last_used_at).collect::<Vec<_>>()
    };
    assert_eq!(used(w.account).await, [None, None]);
    note(&[]).await;
    note(&[(w.foreign, 3, 4), (w.account, 1, 5), (w.account, 9, 5)]).await;
    assert_eq!(used(w.account).await, [Some(minute(5)), None]);
    assert_eq!(used(w.foreign).await, [Some(minute(4))]);
    // An older use, a use of another account's key, and a later use.
    note(&[(w.account, 1, 3), (w.foreign, 2, 6), (w.foreign, 3, 7)]).await;
    assert_eq!(used(w.account).await, [Some(minute(5)), None]);
    assert_eq!(used(w.foreign).await, [Some(minute(7))]);
    let [own, foreign] = [w.account, w.foreign];
    let replicas =
        [[(own, 1, 8), (own, 2, 9), (foreign, 3, 8)], [(foreign, 3, 9), (own, 2, 8), (own, 1, 9)]];
    futures_util::future::join_all(replicas.iter().cycle().take(20).map(|uses| note(uses))).await;
    assert_eq!(used(w.account).await, [Some(minute(9)), Some(minute(9))]);
    assert_eq!(used(w.foreign).await, [Some(minute(9))]);
}
