-- Jobs that have not finished move to a table of their own; `jobs` is what has ended, written once.
UPDATE meta SET value = 12 WHERE name = 'min_compatible';

-- The jobs that have not finished. The time in the id is the scheduled_run_at. status: 0 PENDING,
-- 1 RUNNING. wake_at: while PENDING, when it may start (NULL: held until another job has finished);
-- while RUNNING, when the claim ends. stop: 1 no further attempt, since the schedule was deleted;
-- 2 nor this one, since a user has cancelled the job. What the attempt before has brought is in
-- `attempts`.
CREATE TABLE runs (
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
    attempt_started_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_account ON runs (account_id, id);
CREATE INDEX runs_wake ON runs (status, wake_at, id);
CREATE INDEX runs_cancelled ON runs (id) WHERE stop = 2;

INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger, attempt_number,
                  max_attempts, wake_at, claimed_by, stop, created_at, updated_at, started_at,
                  attempt_started_at)
SELECT id, account_id, schedule_id, version_id, shard, status, trigger, attempt_number,
       max_attempts, wake_at, claimed_by, stop, created_at, updated_at, started_at,
       attempt_started_at
FROM jobs WHERE status < 2;

-- What the last attempt has brought, as long as its job has not finished.
ALTER TABLE attempts ADD COLUMN response_truncated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN response_headers TEXT;
ALTER TABLE attempts ADD COLUMN response TEXT;
UPDATE attempts SET response_truncated = j.response_truncated,
                    response_headers = j.response_headers, response = j.response
FROM jobs AS j
WHERE j.status < 2 AND attempts.job_id = j.id AND attempts.number = j.attempt_number - j.status;

-- Taking the columns away one by one would write the whole table anew for each.
ALTER TABLE jobs RENAME TO jobs_before;
CREATE TABLE jobs (
    id                 BLOB PRIMARY KEY NOT NULL,
    account_id         BLOB NOT NULL,
    schedule_id        BLOB NOT NULL,
    version_id         BLOB NOT NULL,
    status             INTEGER NOT NULL,
    trigger            INTEGER NOT NULL,
    attempt_number     INTEGER NOT NULL DEFAULT 0,
    max_attempts       INTEGER NOT NULL,
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
INSERT INTO jobs (id, account_id, schedule_id, version_id, status, trigger, attempt_number,
                  max_attempts, created_at, updated_at, started_at, completed_at,
                  attempt_started_at, duration_ms, timings, status_code, error_code, error_message,
                  response_truncated, response_headers, response)
SELECT id, account_id, schedule_id, version_id, status, trigger, attempt_number, max_attempts,
       created_at, updated_at, started_at, completed_at, attempt_started_at, duration_ms, timings,
       status_code, error_code, error_message, response_truncated, response_headers, response
FROM jobs_before WHERE status >= 2 ORDER BY rowid;
DROP TABLE jobs_before;
CREATE INDEX jobs_account ON jobs (account_id, id);
CREATE INDEX jobs_schedule ON jobs (schedule_id, id);
CREATE INDEX jobs_failed ON jobs (account_id, id) WHERE status = 3;
CREATE INDEX jobs_unscheduled ON jobs (account_id, trigger, id) WHERE trigger > 0;

-- The last tick that has become a job or a skip: none up to it becomes another one.
ALTER TABLE schedule_state ADD COLUMN fired_up_to INTEGER;
