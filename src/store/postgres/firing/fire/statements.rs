//! The statements that fire a batch.

use crate::store::postgres::claims::to_send;

/// The rows of `shards` whose epoch is the leader's. Locked rows are skipped, so that no shard
/// waits for another one.
macro_rules! fences {
    () => {
        "fence AS MATERIALIZED (
    SELECT s.shard, s.suspensions, s.changed
    FROM unnest($1::integer[], $2::bigint[]) AS l (shard, epoch)
    JOIN shards AS s ON s.shard = l.shard AND s.epoch = l.epoch
    FOR SHARE OF s SKIP LOCKED
)"
    };
}

/// The condition that a schedule's account has not changed since the schedule was read.
macro_rules! unchanged {
    () => {
        "fence.suspensions - w.suspensions BETWEEN 0 AND cardinality(fence.changed)
          AND s.account_id <> ALL (fence.changed[1:(fence.suspensions - w.suspensions)::integer])"
    };
}

/// Locks the schedules that are still as they were read. Returns them, each with its open range of
/// skips, and each shard whose fence holds.
///
/// A schedule is not due if its account was suspended or resumed, or got another plan, after the
/// schedule was read. The rows of `shards` count these changes and list the accounts; they are
/// locked here together with the epochs.
///
/// The rows of the states are locked one by one, after those of `shards`. The statement skips
/// locked rows and never waits for them.
pub(super) const LOCK_DUE: &str = concat!(
    "WITH ",
    fences!(),
    ", due AS MATERIALIZED (
    SELECT w.position, st.*
    FROM unnest($4::bigint[], $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $9::integer[])
         AS w (position, schedule, version, tick, suspensions, shard)
    JOIN fence ON fence.shard = w.shard
    CROSS JOIN LATERAL (
        SELECT * FROM schedule_state AS s
        WHERE s.shard = fence.shard AND s.schedule_id = w.schedule AND s.next_tick = w.tick
          AND s.version_id = w.version AND s.next_tick <= $3
          AND ",
    unchanged!(),
    "
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS st
)
SELECT fence.shard AS fenced_shard, d.position, d.schedule_id, d.account_id, d.version_id, d.host_key,
       d.max_attempts, d.overlap_policy, d.active_job_id, d.held_job_id, d.open_skip, d.fired_up_to,
       k.reason AS open_reason, k.last_tick AS open_last
FROM fence
LEFT JOIN due AS d ON d.shard = fence.shard
LEFT JOIN skips AS k ON k.id = d.open_skip"
);

/// Fires schedules without skips whose jobs may overlap. Nearly all firings are of this kind, and
/// none of their jobs has to wait for another one. A schedule that has another policy, tick or
/// version by now is not changed. A job ends the open range of skips.
///
/// If an executor is given, it claims the jobs, and the result has the data that it needs to send
/// them. Definitions are returned only for the versions that are asked for: the others are in the
/// cache.
pub(super) const FIRE_PLAIN: &str = concat!(
    "WITH ",
    fences!(),
    ", due AS MATERIALIZED (
    SELECT w.position, w.next_tick, w.asked, st.shard, st.schedule_id, st.account_id, st.version_id,
           st.host_key, st.max_attempts, st.fired_up_to, w.up_to
    FROM unnest($4::bigint[], $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $12::bigint[],
                $13::bigint[], $16::uuid[], $17::integer[])
         AS w (position, schedule, version, tick, next_tick, suspensions, up_to, asked, shard)
    JOIN fence ON fence.shard = w.shard
    CROSS JOIN LATERAL (
        SELECT * FROM schedule_state AS s
        WHERE s.shard = fence.shard AND s.schedule_id = w.schedule AND s.next_tick = w.tick
          AND s.version_id = w.version AND s.overlap_policy = 'allow' AND s.next_tick <= $3
          AND ",
    unchanged!(),
    "
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS st
    WHERE $15 IS NULL OR EXISTS (SELECT FROM executors WHERE id = $15)
), made AS (
    INSERT INTO runs (id, account_id, schedule_id, version_id, shard, trigger, max_attempts,
                      created_at, updated_at, status, attempt_number, claimed_by, wake_at,
                      started_at, attempt_started_at)
    SELECT w.id, d.account_id, d.schedule_id, d.version_id, d.shard, w.trigger, d.max_attempts, $3, $3,
           c.claimed, c.claimed, $15, CASE WHEN $15 IS NULL THEN $3 END, c.began, c.began
    FROM unnest($9::bigint[], $10::uuid[], $11::smallint[], $14::bigint[])
         AS w (position, id, trigger, tick)
    JOIN due AS d ON d.position = w.position
    CROSS JOIN (SELECT ($15::uuid IS NOT NULL)::integer AS claimed,
                       CASE WHEN $15 IS NOT NULL THEN $3 END AS began) AS c
    WHERE w.tick > coalesce(d.fired_up_to, w.tick - 1)
    RETURNING id, schedule_id, version_id, account_id, trigger, max_attempts
), advanced AS (
    UPDATE schedule_state AS st SET next_tick = d.next_tick, open_skip = NULL,
        fired_up_to = greatest(st.fired_up_to, d.up_to)
    FROM due AS d
    WHERE st.shard = d.shard AND st.schedule_id = d.schedule_id
    RETURNING d.position, d.shard, d.schedule_id, d.account_id, d.host_key, d.asked
)
SELECT a.position, m.id, true AS starts, a.account_id, a.host_key, a.schedule_id, m.version_id,
       m.trigger, 1::smallint AS attempt_number, m.max_attempts, fence.shard,
       $3 AS started_at, $3 AS attempt_started_at, false AS was_held,
       ",
    to_send!("a", "$3"),
    "
FROM fence
LEFT JOIN (advanced AS a LEFT JOIN made AS m ON m.schedule_id = a.schedule_id)
       ON a.shard = fence.shard
LEFT JOIN schedule_versions AS v ON v.id = a.asked AND m.id IS NOT NULL"
);
