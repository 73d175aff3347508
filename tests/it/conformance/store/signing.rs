use punctual::domain::audit::Action;
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::Definition;
use punctual::domain::signing::SigningSecret;
use punctual::domain::{AccountId, JobId, ScheduleId, SigningSecretId, Timestamp, UserId};
use punctual::store::{
    Account, AuditQuery, ClaimedJobs, JoinedAccount, KnownSecret, NewJob, NewSecret, NewUser,
    TriggerResult, UserCreated,
};

use super::users::{address, audit_context, hash};
use super::world::{World, definition, minute};

fn secret(byte: u8) -> SigningSecret {
    SigningSecret::new(|bytes| bytes.fill(byte))
}

pub fn new_secret(byte: u8, old_expires_at: Timestamp) -> NewSecret {
    // The instant differs from that of the accounts, whose ids are also those of their first
    // secrets.
    let id = SigningSecretId::new(minute(1), byte.into());
    NewSecret { id, secret: secret(byte), old_expires_at }
}

async fn secrets(w: &World, account: AccountId) -> Vec<KnownSecret> {
    w.store.signing_secrets(account).await.expect("list")
}

/// Returns the first secret of an account, which must be its only one.
async fn first(w: &World, account: AccountId) -> SigningSecret {
    let secrets = secrets(w, account).await;
    assert_eq!(secrets.len(), 1, "{secrets:?}");
    secrets[0].secret.clone().expect("readable")
}

/// Creates a schedule of an account, with or without signed requests.
async fn schedule(w: &World, account: AccountId, sign_requests: bool) -> ScheduleId {
    let definition = Definition { sign_requests, ..definition() };
    let mut new = w.new_schedule();
    new.version = w.new_version(definition);
    let id = new.id;
    w.store.create_schedules(&w.write_for(account, minute(0)), &[new], None).await.expect("create");
    id
}

async fn job(w: &World, account: AccountId, schedule: ScheduleId, at: Timestamp) -> JobId {
    let new = NewJob { id: JobId::new(at, w.random.bits()), schedule };
    let made = w.store.create_job(&w.write_for(account, at), &new, None).await;
    assert!(matches!(made, Ok(TriggerResult::Created(_))), "{made:?}");
    new.id
}

/// Returns the secrets that sign a job of the world's account, claimed at an instant.
async fn signing(w: &World, schedule: ScheduleId, at: Timestamp) -> Vec<SigningSecret> {
    let job = job(w, w.account, schedule, at).await;
    w.claim(at, &[job]).await.swap_remove(0).signing_secrets
}

pub async fn an_account_has_one_from_the_beginning(w: &World) {
    let own = first(w, w.account).await;
    let known = KnownSecret {
        id: SigningSecretId::first_of(w.account),
        secret: Some(own.clone()),
        created_at: minute(0),
        expires_at: None,
    };
    assert_eq!(secrets(w, w.account).await, [known]);
    assert_ne!(first(w, w.foreign).await, own);
    w.store.make_first_secrets().await.expect("nothing to do");
    assert_eq!(first(w, w.account).await, own);
    assert_eq!(secrets(w, AccountId::new(minute(0), 77)).await, []);
    // An account from a sign-up has a secret, too.
    let account = Account::new(AccountId::new(minute(4), 8), "dans", minute(4));
    let id = account.id;
    let dan = NewUser {
        id: UserId::new(minute(4), 8),
        email: address("dan"),
        password: hash("x"),
        is_confirmed: false,
    };
    let made =
        w.store.create_user(&audit_context(w, minute(4)), &dan, &JoinedAccount::New(account)).await;
    assert_eq!(made.expect("create"), UserCreated::Created);
    first(w, id).await;
}

pub async fn only_jobs_that_sign_are_given_secrets(w: &World) {
    let [signed, plain] = [schedule(w, w.account, true).await, schedule(w, w.account, false).await];
    let foreign = schedule(w, w.foreign, true).await;
    let jobs = [
        job(w, w.account, signed, minute(1)).await,
        job(w, w.account, plain, minute(1)).await,
        job(w, w.foreign, foreign, minute(1)).await,
        job(w, w.account, signed, minute(1)).await,
    ];
    let claimed = w.claim(minute(1), &jobs).await;
    let given: Vec<_> = claimed.into_iter().map(|claimed| claimed.signing_secrets).collect();
    let (own, foreign) = (first(w, w.account).await, first(w, w.foreign).await);
    assert_eq!(given, [vec![own.clone()], vec![], vec![foreign], vec![own]]);
}

pub async fn a_new_secret_and_the_one_before_overlap(w: &World) {
    let id = schedule(w, w.account, true).await;
    let old = first(w, w.account).await;
    let rotate = async |account, at, new| {
        w.store.rotate_signing_secret(&w.write_for(account, at), &new).await.expect("rotate")
    };
    assert!(rotate(w.account, minute(5), new_secret(1, minute(10))).await);
    let ends = async || {
        let secrets = secrets(w, w.account).await;
        secrets.into_iter().map(|one| (one.secret, one.expires_at)).collect::<Vec<_>>()
    };
    assert_eq!(ends().await, [(Some(secret(1)), None), (Some(old.clone()), Some(minute(10)))]);
    let just_before = Timestamp::from_millis(minute(10).as_millis() - 1);
    assert_eq!(signing(w, id, just_before).await, [secret(1), old.clone()]);
    assert_eq!(signing(w, id, minute(10)).await, [secret(1)]);
    // While two secrets sign, a third one ends the oldest at once.
    assert!(rotate(w.account, minute(11), new_secret(2, minute(30))).await);
    assert!(rotate(w.account, minute(12), new_secret(3, minute(20))).await);
    assert_eq!(ends().await, [(Some(secret(3)), None), (Some(secret(2)), Some(minute(20)))]);
    assert_eq!(signing(w, id, minute(13)).await, [secret(3), secret(2)]);

    let unknown = AccountId::new(minute(0), 77);
    assert!(!rotate(unknown, minute(13), new_secret(4, minute(20))).await);
    assert_eq!(secrets(w, unknown).await, []);
    assert_eq!(secrets(w, w.foreign).await.len(), 1);
    let action = Some(Action::SigningSecretRotated);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 9 };
    let log = w.store.audit_log(w.account, &query).await.expect("list").entries;
    let objects: Vec<_> = log.into_iter().map(|entry| entry.object).collect();
    let told = [3, 2, 1].map(|byte| new_secret(byte, minute(0)).id.to_string());
    assert_eq!(objects, told);
}

pub async fn of_many_rotations_at_once_two_sign(w: &World) {
    let mut rotations = Vec::new();
    for byte in 1..=6 {
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        let new = new_secret(byte, minute(9));
        rotations.push(w.spawn(async move { store.rotate_signing_secret(&write, &new).await }));
    }
    for rotated in rotations {
        assert!(rotated.await.expect("rotate"));
    }
    let ends: Vec<_> = secrets(w, w.account).await.into_iter().map(|one| one.expires_at).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends.iter().filter(|end| end.is_none()).count(), 1, "{ends:?}");
}

/// An unreadable secret fails only the jobs that it signs. Accounts from before signing secrets get
/// one, once.
pub async fn a_secret_signs_at_its_own_place_only(w: &World, spoil: impl AsyncFn(&'static str)) {
    let [signed, plain] = [schedule(w, w.account, true).await, schedule(w, w.account, false).await];
    let foreign = schedule(w, w.foreign, true).await;
    let claim = async |at| {
        let jobs = [
            job(w, w.account, signed, at).await,
            job(w, w.account, plain, at).await,
            job(w, w.foreign, foreign, at).await,
        ];
        let ClaimedJobs { taken, unreadable } =
            w.store.claim(&w.claim_at(at), &jobs).await.expect("claim");
        let taken: Vec<_> = taken.into_iter().map(|claimed| claimed.schedule).collect();
        (taken, unreadable)
    };
    spoil(
        "UPDATE signing_secrets SET secret =
             (SELECT secret FROM signing_secrets AS s JOIN accounts AS a ON a.id = s.account_id
              WHERE a.name = 'foreign')",
    )
    .await;
    let (taken, unreadable) = claim(minute(1)).await;
    assert_eq!(taken, [plain, foreign]);
    assert_eq!(unreadable.len(), 1);
    let failure = &unreadable[0].failure;
    assert_eq!((failure.code, failure.retryable), (ErrorCode::SecretUnreadable, false));
    assert!(failure.message.contains("signing secret"), "{}", failure.message);
    assert_eq!(secrets(w, w.account).await[0].secret, None);
    assert!(w.read(signed).await.definition.body.is_some());

    spoil("DELETE FROM signing_secrets").await;
    let (taken, unreadable) = claim(minute(2)).await;
    assert_eq!((taken, unreadable.len()), (vec![plain], 2), "there is none");
    futures_util::future::join_all((0..4).map(|_| w.store.make_first_secrets()))
        .await
        .into_iter()
        .for_each(|made| made.expect("made"));
    let own = first(w, w.account).await;
    assert_ne!(first(w, w.foreign).await, own);
    assert_eq!(secrets(w, w.account).await[0].created_at, minute(0), "as old as the account");
    assert_eq!(claim(minute(3)).await.0, [signed, plain, foreign]);
}
