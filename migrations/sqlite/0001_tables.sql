-- The first set of tables. Those with wide rows keep them in the order in which they were made,
-- so that what is made together lies together; the narrow ones lie in the order of their key.
--
-- Ids are 16 bytes, instants are milliseconds since 1970. Enumerations are stored by name, but for
-- the two of the busiest table: jobs.status (0 PENDING, 1 RUNNING, 2 SUCCESS, 3 FAILED) and
-- jobs.trigger (0 schedule, 1 manual, 2 catch_up, 3 retry).

-- What holds for the whole store. min_compatible: the number of the last migration that a binary
-- must know to use this store; only a migration that takes something away raises it.
-- shards: the number of shards, once it is set.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('min_compatible', 1);

CREATE TABLE accounts (
    id         BLOB PRIMARY KEY NOT NULL,
    name       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id         BLOB PRIMARY KEY NOT NULL,
    account_id BLOB NOT NULL,
    name       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    digest     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_account ON api_keys (account_id, id);

CREATE TABLE shards (
    shard   INTEGER PRIMARY KEY NOT NULL,
    epoch   INTEGER NOT NULL,
    replica TEXT NOT NULL,
    led_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE schedules (
    id              BLOB PRIMARY KEY NOT NULL,
    account_id      BLOB NOT NULL,
    shard           INTEGER NOT NULL,
    version_id      BLOB NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT,
    is_enabled      INTEGER NOT NULL,
    overlap_policy  TEXT NOT NULL,
    catch_up_policy TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_created ON schedules (account_id, created_at, id);
CREATE INDEX schedules_name ON schedules (account_id, name, id);

-- Immutable, but for retired_at: since when no schedule uses it.
CREATE TABLE schedule_versions (
    id                    BLOB PRIMARY KEY NOT NULL,
    account_id            BLOB NOT NULL,
    schedule_id           BLOB NOT NULL,
    host_key              INTEGER NOT NULL,
    cron_expression       TEXT NOT NULL,
    timezone              TEXT NOT NULL,
    endpoint              TEXT NOT NULL,
    http_method           TEXT NOT NULL,
    body                  TEXT,
    headers               TEXT,
    max_retries           INTEGER NOT NULL,
    timeout_seconds       INTEGER NOT NULL,
    expected_status_codes TEXT,
    sign_requests         INTEGER NOT NULL,
    created_at            INTEGER NOT NULL,
    retired_at            INTEGER
) STRICT;
CREATE INDEX schedule_versions_retired ON schedule_versions (retired_at)
    WHERE retired_at IS NOT NULL;

-- What firing and committing change: narrow, without an index but its key, which is in the order
-- in which a shard's leader reads it.
CREATE TABLE schedule_state (
    shard                INTEGER NOT NULL,
    schedule_id          BLOB NOT NULL,
    next_tick            INTEGER,
    last_run_at          INTEGER,
    last_job_status      INTEGER,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    active_job_id        BLOB,
    held_job_id          BLOB,
    PRIMARY KEY (shard, schedule_id)
) STRICT, WITHOUT ROWID;

-- The time in a job's id is its scheduled_run_at. wake_at: while PENDING, when it may start (NULL:
-- held until another job has finished); while RUNNING, when the claim ends. stop: 1 no further
-- attempt, since the schedule was deleted; 2 nor this one, since a user has cancelled the job.
-- The last attempt is in the job's row, from attempt_started_at on.
CREATE TABLE jobs (
    id                 BLOB PRIMARY KEY NOT NULL,
    account_id         BLOB NOT NULL,
    schedule_id        BLOB NOT NULL,
    version_id         BLOB NOT NULL,
    shard              INTEGER NOT NULL,
    status             INTEGER NOT NULL,
    trigger            INTEGER NOT NULL,
    attempt_number     INTEGER NOT NULL DEFAULT 0,
    max_attempts       INTEGER NOT NULL,
    wake_at            INTEGER,
    claimed_by         BLOB,
    stop               INTEGER NOT NULL DEFAULT 0,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    started_at         INTEGER,
    completed_at       INTEGER,
    attempt_started_at INTEGER,
    duration_ms        INTEGER,
    timings            TEXT,
    status_code        INTEGER,
    error_code         TEXT,
    error_message      TEXT,
    response_truncated INTEGER NOT NULL DEFAULT 0,
    response_headers   TEXT,
    response           TEXT
) STRICT;
CREATE INDEX jobs_account ON jobs (account_id, id);
CREATE INDEX jobs_schedule ON jobs (schedule_id, id);
CREATE INDEX jobs_unfinished ON jobs (status, wake_at, account_id, schedule_id, id)
    WHERE status < 2;
CREATE INDEX jobs_failed ON jobs (account_id, id) WHERE status = 3;
CREATE INDEX jobs_unscheduled ON jobs (account_id, trigger, id) WHERE trigger > 0;
CREATE INDEX jobs_cancelled ON jobs (id) WHERE stop = 2 AND status = 1;

-- The attempts of a job that were followed, or could have been, by another one.
CREATE TABLE attempts (
    job_id        BLOB NOT NULL,
    number        INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    completed_at  INTEGER NOT NULL,
    duration_ms   INTEGER,
    status_code   INTEGER,
    error_code    TEXT,
    error_message TEXT,
    timings       TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

-- Ranges of ticks that became no jobs.
CREATE TABLE skips (
    id          INTEGER PRIMARY KEY,
    account_id  BLOB NOT NULL,
    schedule_id BLOB NOT NULL,
    first_tick  INTEGER NOT NULL,
    last_tick   INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    reason      TEXT NOT NULL
) STRICT;
CREATE INDEX skips_schedule ON skips (schedule_id, first_tick, id);
CREATE INDEX skips_age ON skips (last_tick);
