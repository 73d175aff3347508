//! A server with TLS and a private certificate authority.

use std::path::Path;

use punctual::store::postgres::{PostgresSettings, PostgresStore};
use punctual::store::{StoreErrorKind, UpkeepStore};
use sqlx::Connection;

use crate::harness::certificates::Authority;
use crate::harness::keys::cipher;
use crate::harness::postgres::PostgresServer;

fn open(server: &PostgresServer, host: &str, mode: &str, authority: &Path) -> PostgresStore {
    let mut url: url::Url = server.url().parse().expect("a URL");
    url.set_host(Some(host)).expect("a host");
    let authority = authority.to_str().expect("text");
    url.query_pairs_mut().append_pair("sslmode", mode).append_pair("sslrootcert", authority);
    PostgresStore::open(&PostgresSettings::new(url), &cipher()).expect("open")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_by_its_authority_and_its_name() {
    let (server, authority) = PostgresServer::start_with_tls(&Authority::new("own")).await;
    let store = open(&server, "127.0.0.1", "verify-full", &authority);
    store.migrate().await.expect("trusted");
    store.ping().await.expect("trusted");
    let mut other_session = server.second_connection().await;
    let (all, encrypted): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl
         JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'punctual %'",
    )
    .fetch_one(&mut other_session)
    .await
    .expect("ask");
    assert!(all > 0 && encrypted == all, "{encrypted} of {all}");
    other_session.close().await.expect("closed");

    let folder = tempfile::tempdir().expect("a folder");
    let strangers = folder.path().join("authority");
    std::fs::write(&strangers, Authority::new("another").pem()).expect("written");
    for (host, authority) in [("127.0.0.1", &strangers), ("localhost", &authority)] {
        let store = open(&server, host, "verify-full", authority);
        for failed in [store.ping().await, store.migrate().await] {
            let error = failed.expect_err("it is not trusted");
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("check sslmode and sslrootcert"), "{error}");
        }
    }
}
