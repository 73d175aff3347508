//! Searches the data in the servers.

use std::fs;
use std::path::Path;

use sqlx::AssertSqlSafe;

use super::assert_absent;
use crate::harness::servers::{EtcdServers, RedisServer};
use crate::serve::world::World;

/// The password of etcd.
pub const ETCD_PASSWORD: &str = "marker-of-etcd";

/// Starts an etcd that requires a password.
pub async fn etcd_with_login() -> EtcdServers {
    let servers = EtcdServers::start(1).await;
    let mut client = servers.client().await;
    client.user_add("root", ETCD_PASSWORD, None).await.expect("added");
    client.role_add("root").await.expect("added");
    client.user_grant_role("root", "root").await.expect("granted");
    client.auth_enable().await.expect("enabled");
    servers
}

/// Searches all files below a folder. Returns their contents.
pub fn search_files(folder: &Path, markers: &[&str]) -> Vec<u8> {
    let mut searched = Vec::new();
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        if path.is_dir() {
            searched.extend(search_files(&path, markers));
        } else {
            let content = fs::read(&path).expect("read");
            assert_absent(&path.display().to_string(), &content, markers);
            searched.extend(content);
        }
    }
    searched
}

/// Searches all tables.
pub async fn search_database(world: &World, markers: &[&str]) {
    let mut other_session = world.second_connection().await;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut other_session)
            .await
            .expect("tables");
    assert!(tables.iter().any(|table| table == "schedule_versions"));
    for table in tables {
        let query = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} AS t");
        let query = sqlx::query_scalar(AssertSqlSafe(query));
        let rows: String = query.fetch_one(&mut other_session).await.expect("rows");
        assert_absent(&table, rows.as_bytes(), markers);
    }
}

/// Searches the names and values of all keys.
pub async fn search_redis(server: &RedisServer, prefix: &str, markers: &[&str]) {
    let keys: Vec<String> = server.run(redis::cmd("KEYS").arg(format!("*{prefix}*"))).await;
    assert!(!keys.is_empty());
    for key in keys {
        assert_absent("the name of a key", key.as_bytes(), markers);
        let ask = async |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            words[1..].iter().for_each(|word| _ = command.arg(*word));
            server.run::<redis::Value>(&command).await
        };
        let kind = ask(&["TYPE", &key]).await;
        let value = match &kind {
            redis::Value::SimpleString(kind) if kind == "zset" => {
                ask(&["ZRANGE", &key, "0", "-1"]).await
            }
            redis::Value::SimpleString(kind) if kind == "hash" => ask(&["HGETALL", &key]).await,
            redis::Value::SimpleString(kind) if kind == "set" => ask(&["SMEMBERS", &key]).await,
            // The key may have expired in the meantime.
            redis::Value::SimpleString(kind) if kind == "none" => continue,
            _ => ask(&["GET", &key]).await,
        };
        let value = format!("{value:?}");
        assert_absent(&key, value.as_bytes(), markers);
    }
    // The snapshot for the next start is searched together with the other files.
    let _: () = server.run(&redis::cmd("SAVE")).await;
}
