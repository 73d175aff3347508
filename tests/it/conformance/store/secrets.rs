//! Sealed secrets: they are bound to their rows, and their keys can be changed. Each adapter
//! accesses its rows and opens its store with other keys in its own way; the effects are the same.

use punctual::domain::call::{Idempotency, IdempotencyKey};
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::{Definition, UnreadableFields};
use punctual::domain::secret_key::SecretKey;
use punctual::domain::{AccountId, ScheduleId};
use punctual::runtime::Random;
use punctual::store::{
    ClaimedJobs, Reservation, Reserved, SealedTable, SecretCipher, SharedStore, StoreErrorKind,
};

use super::world::{World, definition, every_job, every_schedule, minute};
use crate::harness::keys::{cipher, cipher_of};

const BOTH: UnreadableFields = UnreadableFields { body: true, headers: true };

/// Creates a schedule whose version is marked by its timezone.
async fn marked(w: &World, mark: &str) -> ScheduleId {
    let definition = Definition { timezone: mark.into(), ..definition() };
    w.schedule_with(|new| new.version = w.new_version(definition)).await
}

/// Claims one job of each schedule.
async fn claim(w: &World, schedules: &[ScheduleId]) -> ClaimedJobs {
    let mut jobs = Vec::new();
    for id in schedules {
        jobs.push(w.manual_job(*id, minute(1)).await);
    }
    w.store.claim(&w.claim_at(minute(1)), &jobs).await.expect("claim")
}

const ONCE: Idempotency = Idempotency { key: IdempotencyKey([5; 16]), holder: 1 };

/// Reserves the idempotency key whose response was stored.
async fn reserve(store: &SharedStore, w: &World) -> Reserved {
    let reservation = Reservation { idempotency: ONCE, request: [1; 32] };
    store.reserve(w.account, minute(1), &reservation).await.expect("reserve")
}

async fn keep_an_answer(w: &World) {
    assert_eq!(reserve(&w.store, w).await, Reserved::Yours);
    w.store.keep_answer(w.account, ONCE, "said").await.expect("keep");
}

fn stored_response() -> Reserved {
    Reserved::Answered("said".to_owned())
}

/// A moved or damaged secret fails only its own job, and no list.
pub async fn a_secret_opens_at_its_own_place_only(w: &World, spoil: impl AsyncFn(&'static str)) {
    let fine = w.schedule().await;
    let [moved, taken] = [marked(w, "moved").await, marked(w, "taken").await];
    let swapped = marked(w, "swapped").await;
    spoil(
        "UPDATE schedule_versions SET body = (SELECT body FROM schedule_versions
         WHERE timezone = 'taken') WHERE timezone = 'moved'",
    )
    .await;
    spoil("UPDATE schedule_versions SET body = headers, headers = body WHERE timezone = 'swapped'")
        .await;
    let ClaimedJobs { taken: claimed, unreadable } = claim(w, &[fine, moved, taken, swapped]).await;
    let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.schedule).collect();
    assert_eq!(claimed, [fine, taken]);
    assert_eq!(unreadable.len(), 2);
    for unreadable in unreadable {
        let failure = unreadable.failure;
        assert_eq!((failure.code, failure.retryable), (ErrorCode::SecretUnreadable, false));
        let job = w.job(unreadable.job).await;
        assert_eq!(job.body, None);
        assert!(job.unreadable.body, "it says so");
    }
    let schedule = w.read(moved).await;
    assert_eq!(schedule.unreadable, UnreadableFields { body: true, headers: false });
    assert_eq!(
        (schedule.definition.body, schedule.definition.headers),
        (None, definition().headers)
    );
    assert_eq!(w.read(swapped).await.unreadable, BOTH);
    let versions = w.store.versions(w.account, None, 9).await.expect("read");
    let lost = versions.iter().filter(|version| version.unreadable == BOTH);
    assert_eq!(lost.map(|version| version.schedule).collect::<Vec<_>>(), [swapped]);
    let page = w.store.schedules(w.account, &every_schedule()).await.expect("list");
    assert_eq!(page.schedules.len(), 4);
    let readable = |id| page.schedules.iter().any(|one| one.id == id && one.unreadable != BOTH);
    assert!(readable(fine) && readable(taken) && !readable(swapped));
    assert_eq!(w.listed(&every_job()).await.len(), 4);
}

/// A row that was moved to another account cannot be opened.
pub async fn a_secret_opens_for_its_own_account_only(w: &World, spoil: impl AsyncFn(&'static str)) {
    let id = marked(w, "given").await;
    spoil(
        "UPDATE schedules SET account_id =
             (SELECT id FROM accounts WHERE name = 'foreign')",
    )
    .await;
    let schedule = w.store.schedule(w.foreign, id).await.expect("read").expect("a schedule");
    assert_eq!(schedule.unreadable, BOTH);
}

/// Secrets from before sealing are readable, and are sealed later.
pub async fn plain_secrets_are_read_and_sealed(w: &World, spoil: impl AsyncFn(&'static str)) {
    let (id, empty) = (w.schedule().await, AccountId::new(minute(0), 9));
    w.schedule_with(|new| {
        new.version.definition.body = None;
        new.version.definition.headers = None;
    })
    .await;
    keep_an_answer(w).await;
    assert_eq!(w.store.stale_secrets().await.expect("count"), 0);
    assert_eq!(reserve(&w.store, w).await, stored_response());
    spoil("UPDATE schedule_versions SET body = 'plain' WHERE body IS NOT NULL").await;
    assert_eq!(w.read(id).await.definition.body.as_deref(), Some("plain"));
    assert_eq!(w.store.stale_secrets().await.expect("count"), 1);
    let done = w.store.reseal(SealedTable::Versions, [0; 16], 9).await.expect("reseal");
    assert_eq!((done.sealed, done.unreadable), (1, vec![]));
    assert_eq!(w.store.stale_secrets().await.expect("count"), 0);
    assert_eq!(w.read(id).await.definition.body.as_deref(), Some("plain"));
    assert_eq!(w.store.schedule(empty, id).await.expect("read"), None);
}

/// `reopen` opens the same store with other keys.
pub async fn keys_are_changed(w: &World, reopen: impl AsyncFn(SecretCipher) -> SharedStore) {
    w.store.use_keys(&[]).await.expect("a new store takes any key");
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(w.schedule().await);
    }
    keep_an_answer(w).await;
    let both = reopen(cipher_of(&["new", "test"])).await;
    both.use_keys(&[]).await.expect("it has both");
    let keys = async |store: &SharedStore| {
        let proofs = store.key_proofs().await.expect("read");
        proofs.into_iter().map(|proof| proof.id).collect::<Vec<_>>()
    };
    assert_eq!(keys(&both).await, ["new", "test"]);
    // The signing secrets of the two accounts are included.
    assert_eq!(both.stale_secrets().await.expect("count"), 8);
    assert_eq!(both.forget_keys(false).await.expect("asked"), [""; 0], "the old one is needed");

    let first = both.reseal(SealedTable::Versions, [0; 16], 2).await.expect("reseal");
    assert_eq!((first.sealed, first.unreadable), (2, vec![]));
    let next = both.reseal(SealedTable::Versions, first.last.expect("there are more"), 9).await;
    assert_eq!(next.expect("reseal").sealed, 3);
    let again = both.reseal(SealedTable::Versions, [0; 16], 9).await.expect("reseal");
    assert_eq!((again.sealed, again.last), (0, None), "nothing is left");
    assert_eq!(both.forget_keys(false).await.expect("asked"), [""; 0], "an answer needs it");
    let answers = both.reseal(SealedTable::IdempotencyKeys, [0; 16], 9).await.expect("reseal");
    assert_eq!((answers.sealed, answers.unreadable), (1, vec![]));
    assert_eq!(both.forget_keys(false).await.expect("asked"), [""; 0], "a signing secret needs it");
    let signing = both.reseal(SealedTable::SigningSecrets, [0; 16], 9).await.expect("reseal");
    assert_eq!((signing.sealed, signing.unreadable), (2, vec![]));
    assert_eq!(both.forget_keys(false).await.expect("forgotten"), ["test"]);
    assert_eq!(keys(&both).await, ["new"]);

    let new = reopen(cipher_of(&["new"])).await;
    new.use_keys(&[]).await.expect("the old one is not needed any more");
    assert_eq!(reserve(&new, w).await, stored_response());
    let old = reopen(cipher()).await;
    assert_eq!(reserve(&old, w).await, Reserved::Yours, "an answer that does not open is lost");
    for id in ids {
        let schedule = new.schedule(w.account, id).await.expect("read").expect("a schedule");
        assert_eq!(schedule.definition, definition());
    }
}

/// Seals all secrets with the first key. Returns the accounts of unreadable rows.
async fn reseal_all(store: &SharedStore) -> Vec<AccountId> {
    let mut lost = Vec::new();
    for table in SealedTable::ALL {
        let done = store.reseal(table, [0; 16], 99).await.expect("reseal");
        lost.extend(done.unreadable);
    }
    lost
}

/// Unreadable rows are reported. The old keys are kept until an operator abandons those rows.
pub async fn lost_rows_keep_the_keys_until_abandoned(
    w: &World,
    reopen: impl AsyncFn(SecretCipher) -> SharedStore,
    spoil: impl AsyncFn(&'static str),
) {
    w.store.use_keys(&[]).await.expect("a new store takes any key");
    let (fine, _) = (w.schedule().await, marked(w, "lost").await);
    spoil(
        "UPDATE schedule_versions SET body = substr(body, 1, length(body) - 4) || 'AAAA'
         WHERE timezone = 'lost'",
    )
    .await;
    let both = reopen(cipher_of(&["new", "test"])).await;
    both.use_keys(&[]).await.expect("it has both");
    assert_eq!(both.forget_keys(true).await.expect("asked"), [""; 0], "others can be opened");
    assert_eq!(reseal_all(&both).await, [w.account]);
    assert_eq!(both.stale_secrets().await.expect("count"), 1);
    assert_eq!(both.forget_keys(false).await.expect("asked"), [""; 0], "that row may need it");
    assert_eq!(both.forget_keys(true).await.expect("forgotten"), ["test"]);
    let new = reopen(cipher_of(&["new"])).await;
    new.use_keys(&[]).await.expect("the old one is not needed any more");
    let schedule = new.schedule(w.account, fine).await.expect("read").expect("a schedule");
    assert_eq!(schedule.definition, definition());
    assert_eq!(reseal_all(&new).await, [w.account], "as long as it is there");
}

/// A server with a newer first key stores a secret while the other keys are forgotten. The secret
/// is unreadable here, but not lost.
pub async fn rows_that_are_written_meanwhile_keep_the_keys(
    w: &World,
    reopen: impl AsyncFn(SecretCipher) -> SharedStore,
    abandon: bool,
) {
    w.store.use_keys(&[]).await.expect("a new store takes any key");
    let both = reopen(cipher_of(&["new", "test"])).await;
    both.use_keys(&[]).await.expect("it has both");
    let newer = reopen(cipher_of(&["newer", "new", "test"])).await;
    newer.use_keys(&[]).await.expect("it has all");
    assert_eq!(reseal_all(&both).await, []);
    assert_eq!(both.stale_secrets().await.expect("count"), 0);
    assert_eq!(both.forget_keys(abandon).await.expect("asked"), [""; 0], "they are given back");
    assert_eq!(both.key_proofs().await.expect("read").len(), 3);
    assert_eq!(both.forget_keys(abandon).await.expect("asked"), [""; 0], "nor removed then");
}

/// A store rejects keys that cannot open its contents.
pub async fn a_missing_or_wrong_key_is_refused(
    w: &World,
    reopen: impl AsyncFn(SecretCipher) -> SharedStore,
) {
    w.store.use_keys(&[]).await.expect("a new store takes any key");
    let id = w.schedule().await;
    let missing = reopen(cipher_of(&["other"])).await;
    let wrong = SecretKey { id: "test".into(), key: [99; 32].into() };
    let wrong = reopen(SecretCipher::new(&wrong, &[], Random::seeded(1))).await;
    for (store, says) in
        [(missing, "which is not configured"), (wrong, "another key of the id \"test\"")]
    {
        let error = store.use_keys(&[]).await.expect_err(says);
        assert_eq!(error.kind(), StoreErrorKind::WrongKeys);
        let said = error.to_string();
        assert!(said.contains(says) && said.contains("secrets.keys_file"), "{said}");
        let schedule = store.schedule(w.account, id).await.expect("read").expect("a schedule");
        assert_eq!(schedule.unreadable, BOTH);
        // Such a store cannot reseal the rows, either.
        let done = store.reseal(SealedTable::Versions, [0; 16], 9).await.expect("looked at");
        assert_eq!(done.sealed, 0);
    }
    let same = reopen(cipher()).await;
    same.use_keys(&[]).await.expect("the same key");
    assert_eq!(w.store.key_proofs().await.expect("read").len(), 1, "no other was noted");
    // The proof of another store is accepted only with the same keys.
    let others = reopen(cipher_of(&["test", "far"])).await;
    let mut proof = w.store.key_proofs().await.expect("read");
    others.use_keys(&proof).await.expect("known");
    proof[0].id = "far".into();
    let error = others.use_keys(&proof).await.expect_err("another one");
    assert_eq!(error.kind(), StoreErrorKind::WrongKeys);
}

/// Several replicas start for the first time with different keys. One of them wins.
pub async fn of_different_first_keys_one_is_taken(
    w: &World,
    reopen: impl AsyncFn(SecretCipher) -> SharedStore,
) {
    let same_id = SecretKey { id: "a".into(), key: [99; 32].into() };
    let ciphers =
        [cipher_of(&["a"]), cipher_of(&["b"]), SecretCipher::new(&same_id, &[], Random::seeded(1))];
    let mut begins = Vec::new();
    for cipher in ciphers {
        let store = reopen(cipher).await;
        begins.push(w.spawn(async move { store.use_keys(&[]).await }));
    }
    let mut begun = 0;
    for begin in begins {
        match begin.await {
            Ok(()) => begun += 1,
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::WrongKeys, "{error}"),
        }
    }
    assert_eq!(begun, 1);
    assert_eq!(w.store.key_proofs().await.expect("read").len(), 1);
}
