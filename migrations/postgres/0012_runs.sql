-- Jobs that have not finished move to a table of their own; `jobs` is what has ended, written once.
UPDATE meta SET value = 12 WHERE name = 'min_compatible';

-- The jobs that have not finished. The time in the id is the scheduled_run_at. status: 0 PENDING,
-- 1 RUNNING. wake_at: while PENDING, when it may start (NULL: held until another job has finished);
-- while RUNNING, when the claim ends. stop: 1 no further attempt, since the schedule was deleted;
-- 2 nor this one, since a user has cancelled the job. What the attempt before has brought is in
-- `attempts`. Every row goes soon after it came, so the table is vacuumed early.
CREATE TABLE runs (
    id                 uuid PRIMARY KEY,
    account_id         uuid NOT NULL,
    schedule_id        uuid NOT NULL,
    version_id         uuid NOT NULL,
    claimed_by         uuid,
    wake_at            bigint,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL,
    started_at         bigint,
    attempt_started_at bigint,
    shard              integer NOT NULL,
    status             smallint NOT NULL,
    trigger            smallint NOT NULL,
    attempt_number     smallint NOT NULL DEFAULT 0,
    max_attempts       smallint NOT NULL,
    stop               smallint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX runs_account ON runs (account_id, id);
CREATE INDEX runs_wake ON runs (status, wake_at);
CREATE INDEX runs_cancelled ON runs (id) WHERE stop = 2;

INSERT INTO runs (id, account_id, schedule_id, version_id, claimed_by, wake_at, created_at,
                  updated_at, started_at, attempt_started_at, shard, status, trigger,
                  attempt_number, max_attempts, stop)
SELECT id, account_id, schedule_id, version_id, claimed_by, wake_at, created_at, updated_at,
       started_at, attempt_started_at, shard, status, trigger, attempt_number, max_attempts, stop
FROM jobs WHERE status < 2;

-- What the last attempt has brought, as long as its job has not finished.
ALTER TABLE attempts ADD COLUMN response_truncated boolean NOT NULL DEFAULT false;
ALTER TABLE attempts ADD COLUMN response_headers text;
ALTER TABLE attempts ADD COLUMN response text;
UPDATE attempts AS a SET response_truncated = j.response_truncated,
                         response_headers = j.response_headers, response = j.response
FROM jobs AS j
WHERE j.status < 2 AND a.job_id = j.id AND a.number = j.attempt_number - j.status;

DELETE FROM jobs WHERE status < 2;
DROP INDEX jobs_unfinished;
DROP INDEX jobs_cancelled;
ALTER TABLE jobs DROP COLUMN claimed_by;
ALTER TABLE jobs DROP COLUMN wake_at;
ALTER TABLE jobs DROP COLUMN stop;
ALTER TABLE jobs DROP COLUMN shard;

-- The last tick that has become a job or a skip: none up to it becomes another one.
ALTER TABLE schedule_state ADD COLUMN fired_up_to bigint;
