//! A record of the writes of leaders, which triggers of the database keep: the replica process that
//! raised an epoch, created the job of a tick or skipped ticks, with the epoch at that time. Claims
//! are recorded with their job. Skips that a user's change of a schedule causes are not leader
//! writes.
//!
//! The record is exact. A trigger runs in the transaction of the writer and sees its epoch. A
//! firing locks the row of the epoch, so the epoch cannot change in between.

use sqlx::{Connection, Executor, PgConnection, Row};

use super::history::Written;

use crate::harness::states::of_a_tick;

const SET_UP: &str = concat!(
    "
    CREATE TABLE audit (number bigserial PRIMARY KEY, kind text, shard integer, epoch bigint,
                        life text, job uuid);
    CREATE FUNCTION audit_epoch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (kind, shard, epoch, life)
        VALUES ('epoch', NEW.shard, NEW.epoch, current_setting('test.life', true));
        RETURN NULL;
    END $$;
    CREATE FUNCTION audit_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (kind, shard, epoch, life, job)
        SELECT 'job', NEW.shard, s.epoch, current_setting('test.life', true), NEW.id
        FROM shards AS s WHERE s.shard = NEW.shard;
        RETURN NULL;
    END $$;
    CREATE FUNCTION audit_skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (kind, shard, epoch, life)
        SELECT 'skip', s.shard, s.epoch, current_setting('test.life', true)
        FROM schedules AS d JOIN shards AS s ON s.shard = d.shard WHERE d.id = NEW.schedule_id;
        RETURN NULL;
    END $$;
    CREATE FUNCTION audit_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (kind, life, job)
        VALUES ('claim', current_setting('test.life', true), NEW.id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER audit_claim AFTER UPDATE OF claimed_by ON runs
        FOR EACH ROW WHEN (NEW.claimed_by IS NOT NULL) EXECUTE FUNCTION audit_claim();
    CREATE TRIGGER audit AFTER INSERT OR UPDATE OF epoch ON shards
        FOR EACH ROW EXECUTE FUNCTION audit_epoch();
    CREATE TRIGGER audit AFTER INSERT ON runs
        FOR EACH ROW WHEN (NEW.",
    of_a_tick!(),
    ") EXECUTE FUNCTION audit_job();
    CREATE TRIGGER audit AFTER INSERT OR UPDATE ON skips
        FOR EACH ROW WHEN (NEW.reason <> 'superseded') EXECUTE FUNCTION audit_skip();"
);

/// Installs the triggers in a migrated store.
pub async fn begin(mut connection: PgConnection) {
    connection.execute(SET_UP).await.expect("set up");
    connection.close().await.expect("closed");
}

/// Returns the record. The writes to each shard are in order.
pub async fn read(mut connection: PgConnection) -> Vec<Written> {
    let rows = sqlx::query(
        "SELECT kind, shard, epoch, life FROM audit WHERE kind <> 'claim' ORDER BY number",
    )
    .fetch_all(&mut connection)
    .await
    .expect("read");
    let read = |row: &sqlx::postgres::PgRow| {
        let (shard, epoch, life) = (row.get("shard"), row.get("epoch"), row.get("life"));
        match row.get::<&str, _>("kind") {
            "epoch" => Written::Epoch { shard, epoch, life },
            _ => Written::Fired { shard, epoch, life },
        }
    };
    rows.iter().map(read).collect()
}
