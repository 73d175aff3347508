//! Sealed secrets.

use std::sync::Arc;

use punctual::store::SharedStore;
use punctual::store::postgres::PostgresStore;

use super::super::{channels, secrets, signing};
use super::world;
use crate::harness::database::{Database, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_open_at_their_own_places_only() {
    for case in 0..4 {
        let database = Database::migrated().await;
        let w = world(&database).await;
        let spoil = async |sql| run(&mut database.second_connection().await, sql).await;
        match case {
            0 => secrets::a_secret_opens_at_its_own_place_only(&w, spoil).await,
            1 => secrets::a_secret_opens_for_its_own_account_only(&w, spoil).await,
            2 => secrets::plain_secrets_are_read_and_sealed(&w, spoil).await,
            _ => signing::a_secret_signs_at_its_own_place_only(&w, spoil).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_changed_and_checked() {
    for case in 0..7 {
        let database = Database::migrated().await;
        let w = world(&database).await;
        let spoil = async |sql| run(&mut database.second_connection().await, sql).await;
        let reopen = async |cipher| {
            let store = PostgresStore::open(&database.settings(), &cipher).expect("open");
            let store: SharedStore = Arc::new(store);
            store
        };
        match case {
            0 => secrets::keys_are_changed(&w, reopen).await,
            1 => secrets::of_different_first_keys_one_is_taken(&w, reopen).await,
            2 => secrets::lost_rows_keep_the_keys_until_abandoned(&w, reopen, spoil).await,
            3 | 4 => {
                spoil(
                    "CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                         UPDATE signing_secrets SET secret = 'sealed:1:newer:AAAA';
                         RETURN NULL; END $$;
                     CREATE TRIGGER meanwhile AFTER DELETE ON secret_keys
                         EXECUTE FUNCTION meanwhile()",
                )
                .await;
                secrets::rows_that_are_written_meanwhile_keep_the_keys(&w, reopen, case == 4).await;
            }
            5 => channels::configurations_are_encrypted(&w, reopen, spoil).await,
            _ => secrets::a_missing_or_wrong_key_is_refused(&w, reopen).await,
        }
    }
}
