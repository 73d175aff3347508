//! The statements that fire a batch.

use std::sync::LazyLock;

use crate::runtime::faults::Defect;
use crate::store::postgres::claims::to_send;

/// The rows of the shards that are the leader's. One that somebody holds is passed over, so that no
/// shard waits for another one.
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

/// Whether nothing has been changed of a schedule's account since it was read.
macro_rules! unchanged {
    () => {
        "fence.suspensions - w.suspensions BETWEEN 0 AND cardinality(fence.changed)
          AND s.account_id <> ALL (fence.changed[1:(fence.suspensions - w.suspensions)::integer])"
    };
}

/// `due` are the schedules that are as they were read. `placed` gives each of their jobs its turn:
/// with a policy other than `allow`, the first starts if none is active, the next is held if there is
/// room, the others are skips. No tick up to the last one that was fired becomes another job (TICK-1).
///
/// Nothing is due that was read before its account was suspended or resumed, or its plan changed: the
/// fences' rows count that, say which accounts it were, and are locked here as the epochs' are.
///
/// The states' rows are locked one by one, after the fences'. Nothing locked is waited for.
const FIRE: &str = concat!(
    "WITH ",
    fences!(),
    ", due AS MATERIALIZED (
    SELECT w.place, w.next_tick, st.shard, st.schedule_id, st.account_id, st.version_id,
           st.host_key, st.max_attempts, st.overlap_policy, st.active_job_id, st.held_job_id,
           st.open_skip, st.fired_up_to, w.up_to
    FROM unnest($4::bigint[], $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $12::bigint[],
                $13::bigint[], $21::integer[])
         AS w (place, schedule, version, tick, next_tick, suspensions, up_to, shard)
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
), wanted AS (
    SELECT d.*, w.id, w.trigger, w.tick
    FROM unnest($9::bigint[], $10::uuid[], $11::smallint[], $14::bigint[])
         AS w (place, id, trigger, tick)
    JOIN due AS d ON d.place = w.place
    WHERE w.tick > coalesce(d.fired_up_to, w.tick - 1)
), placed AS (
    SELECT w.*, 1 AS turn FROM wanted AS w WHERE w.overlap_policy = 'allow'
    UNION ALL
    SELECT w.*, row_number() OVER (PARTITION BY w.place ORDER BY w.id)
                + (w.active_job_id IS NOT NULL)::integer
    FROM wanted AS w
    WHERE w.overlap_policy <> 'allow'
), made AS (
    INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                      max_attempts, wake_at, created_at, updated_at)
    SELECT p.id, p.account_id, p.schedule_id, p.version_id, p.shard, 0, p.trigger, p.max_attempts,
           CASE WHEN p.turn = 1 THEN $3 END, $3, $3
    FROM placed AS p
    WHERE p.turn = 1
       OR p.turn = 2 AND p.overlap_policy = 'queue_one' AND p.held_job_id IS NULL
    RETURNING id, schedule_id, wake_at
), unmade AS (
    SELECT * FROM placed AS p
    WHERE p.turn > 2 OR p.turn = 2 AND (p.overlap_policy = 'skip' OR p.held_job_id IS NOT NULL)
), skipped AS (
    SELECT d.schedule_id, d.account_id, d.open_skip, s.first_tick, s.last_tick, s.count, s.reason
    FROM unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::integer[], $19::text[])
         AS s (place, first_tick, last_tick, count, reason)
    JOIN due AS d ON d.place = s.place
    UNION ALL
    SELECT p.schedule_id, p.account_id, p.open_skip, min(p.tick), max(p.tick),
           least(count(*), $20)::integer, 'overlap'
    FROM unmade AS p
    GROUP BY p.schedule_id, p.account_id, p.open_skip
), open AS MATERIALIZED (
    SELECT k.id FROM skips AS k WHERE k.id IN (SELECT open_skip FROM skipped)
    ORDER BY k.id FOR NO KEY UPDATE SKIP LOCKED
), extended AS (
    UPDATE skips AS k SET last_tick = s.last_tick, count = least(k.count + s.count, $20)
    FROM skipped AS s JOIN open ON open.id = s.open_skip
    WHERE k.id = open.id AND k.reason = s.reason AND k.last_tick < s.first_tick
      AND NOT EXISTS (SELECT FROM wanted AS w
                      WHERE w.schedule_id = s.schedule_id AND w.tick < s.first_tick)
      AND NOT EXISTS (SELECT FROM skipped AS e
                      WHERE e.schedule_id = s.schedule_id AND e.first_tick < s.first_tick)
    RETURNING k.id, k.schedule_id, s.first_tick
), begun AS (
    INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
    SELECT s.account_id, s.schedule_id, s.first_tick, s.last_tick, s.count, s.reason
    FROM skipped AS s
    WHERE NOT EXISTS (SELECT FROM extended AS e
                      WHERE e.schedule_id = s.schedule_id AND e.first_tick = s.first_tick)
    ORDER BY s.schedule_id, s.first_tick
    RETURNING id, schedule_id, first_tick
), newest AS (
    SELECT DISTINCT ON (schedule_id) schedule_id, id, first_tick
    FROM (SELECT * FROM extended UNION ALL SELECT * FROM begun) AS skip
    ORDER BY schedule_id, first_tick DESC
), outcome AS (
    SELECT d.place, d.next_tick, d.up_to, d.shard, d.schedule_id, d.host_key, d.account_id,
           m.started, m.held, m.made, k.id AS open_skip, k.first_tick
    FROM due AS d
    LEFT JOIN (SELECT schedule_id, true AS made,
                      (array_agg(id) FILTER (WHERE wake_at IS NOT NULL))[1] AS started,
                      (array_agg(id) FILTER (WHERE wake_at IS NULL))[1] AS held
               FROM made GROUP BY schedule_id) AS m ON m.schedule_id = d.schedule_id
    LEFT JOIN newest AS k ON k.schedule_id = d.schedule_id
), advanced AS (
    UPDATE schedule_state AS st
    SET next_tick = o.next_tick, fired_up_to = greatest(st.fired_up_to, o.up_to),
        active_job_id = CASE WHEN st.overlap_policy = 'allow' THEN st.active_job_id
                             ELSE coalesce(st.active_job_id, o.started) END,
        held_job_id = coalesce(st.held_job_id, o.held),
        open_skip = CASE
            WHEN o.open_skip IS NOT NULL
                AND NOT EXISTS (SELECT FROM wanted AS w
                                WHERE w.schedule_id = o.schedule_id AND w.tick > o.first_tick
                                  AND EXISTS (SELECT FROM made WHERE made.id = w.id))
                THEN o.open_skip
            WHEN o.made THEN NULL
            ELSE st.open_skip END
    FROM outcome AS o
    WHERE st.shard = o.shard AND st.schedule_id = o.schedule_id
    RETURNING o.place, o.shard, o.schedule_id, o.account_id, o.host_key
)
SELECT a.place, m.id, m.wake_at IS NOT NULL AS starts, a.account_id, a.host_key,
       fence.shard, (SELECT count(*) FROM unmade) AS overlapped
FROM fence
LEFT JOIN (advanced AS a LEFT JOIN made AS m ON m.schedule_id = a.schedule_id)
       ON a.shard = fence.shard"
);

/// For firings without skips of schedules whose jobs may overlap, which nearly all are: no job has
/// to be placed among others. Of a schedule that has another policy by now, or no longer the tick
/// and the version, nothing is changed. A job follows the open range of skips, so that one ends.
///
/// With an executor the jobs are claimed for it, and what it needs to run them is in the answer, but
/// for the versions that are not asked for: those are known.
const FIRE_PLAIN: &str = concat!(
    "WITH ",
    fences!(),
    ", due AS MATERIALIZED (
    SELECT w.place, w.next_tick, w.asked, st.shard, st.schedule_id, st.account_id, st.version_id,
           st.host_key, st.max_attempts, st.fired_up_to, w.up_to
    FROM unnest($4::bigint[], $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $12::bigint[],
                $13::bigint[], $16::uuid[], $17::integer[])
         AS w (place, schedule, version, tick, next_tick, suspensions, up_to, asked, shard)
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
         AS w (place, id, trigger, tick)
    JOIN due AS d ON d.place = w.place
    CROSS JOIN (SELECT ($15::uuid IS NOT NULL)::integer AS claimed,
                       CASE WHEN $15 IS NOT NULL THEN $3 END AS began) AS c
    WHERE w.tick > coalesce(d.fired_up_to, w.tick - 1)
    RETURNING id, schedule_id, version_id, account_id, trigger, max_attempts
), advanced AS (
    UPDATE schedule_state AS st SET next_tick = d.next_tick, open_skip = NULL,
        fired_up_to = greatest(st.fired_up_to, d.up_to)
    FROM due AS d
    WHERE st.shard = d.shard AND st.schedule_id = d.schedule_id
    RETURNING d.place, d.shard, d.schedule_id, d.account_id, d.host_key, d.asked
)
SELECT a.place, m.id, true AS starts, a.account_id, a.host_key, 0::bigint AS overlapped,
       a.schedule_id, m.version_id,
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

/// A statement in its forms; what becomes of it by the defects that the tests are shown to find is one
/// of them.
pub(super) struct Statement {
    /// Whether it places jobs among others and keeps skips: it takes the rest of the batch, too.
    pub(super) places: bool,
    sound: &'static str,
    /// Without the epoch: [`Defect::NoEpochCheck`].
    unfenced: LazyLock<String, fn() -> String>,
    /// And without the tick: [`Defect::NoTickKey`].
    unchecked: LazyLock<String, fn() -> String>,
}

/// For any firing.
pub(super) static ANY: Statement = Statement {
    places: true,
    sound: FIRE,
    unfenced: LazyLock::new(|| unfenced(FIRE)),
    unchecked: LazyLock::new(|| unchecked(FIRE)),
};

/// For firings without skips whose jobs may overlap.
pub(super) static PLAIN: Statement = Statement {
    places: false,
    sound: FIRE_PLAIN,
    unfenced: LazyLock::new(|| unfenced(FIRE_PLAIN)),
    unchecked: LazyLock::new(|| unchecked(FIRE_PLAIN)),
};

impl Statement {
    /// The statement.
    pub(super) fn text(&'static self) -> &'static str {
        if Defect::NoTickKey.is_there() {
            &self.unchecked
        } else if Defect::NoEpochCheck.is_there() {
            &self.unfenced
        } else {
            self.sound
        }
    }
}

fn unfenced(statement: &str) -> String {
    statement.replace("s.epoch = l.epoch", "l.epoch > 0")
}

fn unchecked(statement: &str) -> String {
    let by_any = unfenced(statement).replace("AND s.next_tick = w.tick", "");
    let by_any = by_any.replace("AND s.next_tick <= $3", "");
    by_any.replace("WHERE w.tick > coalesce(d.fired_up_to, w.tick - 1)", "")
}
