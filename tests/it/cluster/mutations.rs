//! Wrong statements: each set makes a replica violate one rule. Production code has none of them;
//! [`punctual::runtime::faults::statement`] replaces the parts in the processes of a test.

/// The changes of statements, by name: the parts to replace, and their replacements.
pub type Mutations = &'static [(&'static str, Parts)];

type Parts = &'static [(&'static str, &'static str)];

/// A fence that any epoch passes.
const ANY_EPOCH: (&str, &str) = ("s.epoch = l.epoch", "l.epoch > 0");

/// Firing does not check the epoch.
pub const NO_EPOCH_CHECK: Mutations = &[("fire", &[ANY_EPOCH]), ("lock", &[ANY_EPOCH])];

/// Firing checks neither the epoch nor the tick that the schedule is at. The id of a tick's job is
/// the second guard behind these checks. So a tick that fires again gets a job with a random id.
pub const NO_TICK_KEY: Mutations = &[
    (
        "fire",
        &[
            ANY_EPOCH,
            ("AND s.next_tick = w.tick", ""),
            ("AND s.next_tick <= $3", ""),
            ("WHERE w.tick > coalesce(d.fired_up_to, w.tick - 1)", ""),
            (
                "SELECT w.id,",
                "SELECT CASE WHEN w.tick > coalesce(d.fired_up_to, w.tick - 1) THEN w.id
                 ELSE (left(w.id::text, 14) || substr(gen_random_uuid()::text, 15))::uuid END,",
            ),
        ],
    ),
    ("lock", &[ANY_EPOCH]),
];

/// A job is ended or retried without a check that the executor still has the claim. A job that has
/// ended is overwritten. The statements return a row for each job that they were called with, so
/// that the caller believes that all of them were changed.
pub const NO_CLAIM_CHECK: Mutations = &[
    (
        "running",
        &[
            ("AND j.status::integer = 1", ""),
            ("AND j.attempt_number = c.attempt AND j.claimed_by = c.executor", ""),
        ],
    ),
    (
        "end",
        &[
            NOT_CLAIMED[0],
            NOT_CLAIMED[1],
            (
                "INSERT INTO jobs",
                ", overwritten AS (
                    UPDATE jobs AS j SET status = o.final, completed_at = o.completed_at,
                        updated_at = $1, error_code = o.error_code, status_code = o.status_code
                    FROM unnest($2::uuid[], $6::smallint[], $7::bigint[], $8::text[],
                                $12::integer[])
                         AS o (job, final, completed_at, error_code, status_code)
                    WHERE j.id = o.job
                ), inserted AS (INSERT INTO jobs",
            ),
            (
                "body
    FROM ended",
                "body
    FROM ended) SELECT FROM unnest($2::uuid[])",
            ),
        ],
    ),
    (
        "retry",
        &[
            ("UPDATE runs", "WITH waiting AS (UPDATE runs"),
            NOT_CLAIMED[0],
            (NOT_CLAIMED[1].0, ") SELECT FROM unnest($2::uuid[])"),
        ],
    ),
];

/// The check of the claim, which is in two lines of the statement.
const NOT_CLAIMED: Parts = &[
    ("AND CASE WHEN r.status = 1 AND r.stop = c.stop AND r.claimed_by = c.executor", ""),
    ("THEN r.attempt_number = c.attempt END", ""),
];

/// The job rescuer finds neither late jobs nor the claims of lost executors.
pub const NO_RESCUE: Mutations = &[
    ("late", &[("WHERE j.status = 0", "WHERE false AND j.status = 0")]),
    ("expired", &[("WHERE e.alive_until < $1", "WHERE false AND e.alive_until < $1")]),
];

/// The queue drops tickets until 6 s of the calendar after their start. Then only the job rescuer,
/// which pushes the tickets of late jobs again, starts the jobs.
pub const LOST_TICKETS: Mutations =
    &[("push", &[("if is_ready then", "if is_ready or tonumber(start) > now - 6000 then")])];

/// A trigger is answered and its job is not written.
pub const NO_WRITE: Mutations = &[(
    "trigger",
    &[
        ("INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,", ""),
        ("max_attempts, wake_at, created_at, updated_at)", ""),
        (
            "SELECT $1, $3, f.id, v.id, f.shard, 0, $4, v.max_retries, $5, $5, $5",
            "SELECT $1::uuid AS id, f.shard, $3::uuid AS account_id, v.id AS version_id,
                    $5::bigint AS wake_at, $4::smallint",
        ),
        ("RETURNING id, shard, account_id, version_id, wake_at", ""),
    ],
)];
