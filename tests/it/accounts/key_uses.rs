//! The times at which keys were last used.

use std::sync::Arc;
use std::time::Duration;

use punctual::accounts::{
    Accounts, Authenticator, KeyRequest, PresentedKey, RateLimiter, RateLimits,
};
use punctual::domain::audit::Author;
use punctual::domain::key::Scope;
use punctual::domain::plan::{Plans, UNLIMITED};
use punctual::runtime::{LoopPause, Worker};
use punctual::store::sqlite::{SqliteSettings, SqliteStore};

use super::world::{HOME, World};
use crate::harness::keys::cipher;

const MINUTE: LoopPause = LoopPause::For(Duration::from_secs(60));

#[tokio::test]
async fn the_last_use_of_a_key_is_written_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = SqliteSettings::new(folder.path().join("store.db"));
    let store = Arc::new(SqliteStore::open(&settings, &cipher()).await.expect("open"));
    store.migrate().await.expect("migrate");
    let w = World::with(|context, _| context.store = store.clone()).await;
    let (clock, plans) = (w.context.clock.clone(), Arc::new(Plans::default()));
    let random = w.context.random.clone();
    let accounts = Accounts::new(store.clone(), clock.clone(), random, plans.clone());
    let account = accounts.create(Author::SERVICE, "first", UNLIMITED).await.expect("made");
    let request = KeyRequest { name: "a".into(), scope: Scope::Read, expires_in: None };
    let key = accounts.create_key(Author::SERVICE, &account, &request).await.expect("made");
    let limits = RateLimits { per_minute: 3, per_hour: 0 };
    let limiter = RateLimiter::new(w.context.queue.clone(), limits);
    let authenticator = Authenticator::new(store.clone(), limiter, clock.clone(), plans);
    let mut writer = authenticator.use_writer();
    let call =
        async || authenticator.admit(PresentedKey::Text(key.reveal()), HOME).await.outcome.is_ok();
    let used = async || accounts.keys(&account).await.expect("listed")[0].last_used_at;

    assert_eq!(writer.run_once(clock.now()).await.expect("nothing to write"), MINUTE);
    assert!(call().await);
    assert_eq!(used().await, None, "no call waits for it");
    let first = clock.now();
    assert_eq!(writer.run_once(clock.now()).await.expect("written"), MINUTE);
    assert_eq!(used().await, Some(first));
    clock.advance(Duration::from_secs(10));
    assert!(call().await && call().await);
    clock.advance(Duration::from_secs(10));
    assert!(!call().await, "one too many");
    writer.run_once(clock.now()).await.expect("written");
    assert_eq!(used().await, Some(first.plus(Duration::from_secs(10))), "a refused call is no use");

    clock.advance(Duration::from_secs(60));
    assert!(call().await);
    store.close().await;
    for _ in 0..2 {
        assert_eq!(writer.run_once(clock.now()).await.expect("kept"), MINUTE);
    }
    assert!(call().await, "calls go on");
}
