-- The first set of tables.
--
-- Ids are 16 bytes (uuid), which sort by the time in them; instants are milliseconds since 1970.
-- Enumerations are stored by name, but for the two of the busiest table: jobs.status (0 PENDING,
-- 1 RUNNING, 2 SUCCESS, 3 FAILED) and jobs.trigger (0 schedule, 1 manual, 2 catch_up, 3 retry).
-- Texts that are sorted or searched compare by code point, whatever the database's locale.

-- What holds for the whole store. min_compatible: the number of the last migration that a binary
-- must know to use this store; only a migration that takes something away raises it.
-- shards: the number of shards, once it is set.
CREATE TABLE meta (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO meta (name, value) VALUES ('min_compatible', 1);

CREATE TABLE accounts (
    id         uuid PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_at bigint NOT NULL
);

CREATE TABLE api_keys (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    name       text NOT NULL,
    scope      text NOT NULL,
    digest     bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
CREATE INDEX api_keys_account ON api_keys (account_id, id);

CREATE TABLE shards (
    shard   integer PRIMARY KEY,
    epoch   bigint NOT NULL,
    replica text NOT NULL,
    led_at  bigint NOT NULL
);

CREATE TABLE schedules (
    id              uuid PRIMARY KEY,
    account_id      uuid NOT NULL,
    version_id      uuid NOT NULL,
    revision        bigint NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    shard           integer NOT NULL,
    is_enabled      boolean NOT NULL,
    overlap_policy  text NOT NULL,
    catch_up_policy text NOT NULL,
    name            text COLLATE "C" NOT NULL,
    description     text COLLATE "C"
);
CREATE INDEX schedules_created ON schedules (account_id, created_at, id);
CREATE INDEX schedules_name ON schedules (account_id, name, id);

-- Immutable, but for retired_at: since when no schedule uses it.
CREATE TABLE schedule_versions (
    id                    uuid PRIMARY KEY,
    account_id            uuid NOT NULL,
    schedule_id           uuid NOT NULL,
    host_key              bigint NOT NULL,
    created_at            bigint NOT NULL,
    retired_at            bigint,
    max_retries           smallint NOT NULL,
    timeout_seconds       smallint NOT NULL,
    sign_requests         boolean NOT NULL,
    cron_expression       text NOT NULL,
    timezone              text NOT NULL,
    endpoint              text COLLATE "C" NOT NULL,
    http_method           text NOT NULL,
    body                  text,
    headers               text,
    expected_status_codes text
);
CREATE INDEX schedule_versions_retired ON schedule_versions (retired_at)
    WHERE retired_at IS NOT NULL;

-- What firing and committing change, and all that firing has to know: it decides by this row
-- alone, which it has locked. No index but the key, which is in the order in which a shard's
-- leader reads it; room in each page, so that updates stay in it.
-- open_skip: the newest range of skips, as long as no job of a tick has followed it.
CREATE TABLE schedule_state (
    shard                integer NOT NULL,
    consecutive_failures integer NOT NULL DEFAULT 0,
    schedule_id          uuid NOT NULL,
    account_id           uuid NOT NULL,
    version_id           uuid NOT NULL,
    host_key             bigint NOT NULL,
    next_tick            bigint,
    last_run_at          bigint,
    open_skip            bigint,
    max_attempts         smallint NOT NULL,
    last_job_status      smallint,
    active_job_id        uuid,
    held_job_id          uuid,
    overlap_policy       text NOT NULL,
    PRIMARY KEY (shard, schedule_id),
    CONSTRAINT held_follows_active CHECK (held_job_id IS NULL OR active_job_id IS NOT NULL)
) WITH (fillfactor = 70);

-- The time in a job's id is its scheduled_run_at. wake_at: while PENDING, when it may start (NULL:
-- held until another job has finished); while RUNNING, when the claim ends. stop: 1 no further
-- attempt, since the schedule was deleted; 2 nor this one, since a user has cancelled the job.
-- The last attempt is in the job's row, from attempt_started_at on.
--
-- A partition holds the ids of one day (UTC). The adapter makes and drops them: `partitions.rs`.
CREATE TABLE jobs (
    id                 uuid PRIMARY KEY,
    account_id         uuid NOT NULL,
    schedule_id        uuid NOT NULL,
    version_id         uuid NOT NULL,
    claimed_by         uuid,
    wake_at            bigint,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL,
    started_at         bigint,
    completed_at       bigint,
    attempt_started_at bigint,
    duration_ms        bigint,
    shard              integer NOT NULL,
    status_code        integer,
    status             smallint NOT NULL,
    trigger            smallint NOT NULL,
    attempt_number     smallint NOT NULL DEFAULT 0,
    max_attempts       smallint NOT NULL,
    stop               smallint NOT NULL DEFAULT 0,
    response_truncated boolean NOT NULL DEFAULT false,
    timings            text,
    error_code         text,
    error_message      text,
    response_headers   text,
    response           text
) PARTITION BY RANGE (id);
CREATE INDEX jobs_account ON jobs (account_id, id);
CREATE INDEX jobs_schedule ON jobs (schedule_id, id);
CREATE INDEX jobs_unfinished ON jobs (status, wake_at) WHERE status < 2;
CREATE INDEX jobs_failed ON jobs (account_id, id) WHERE status = 3;
CREATE INDEX jobs_unscheduled ON jobs (account_id, trigger, id) WHERE trigger > 0;
CREATE INDEX jobs_cancelled ON jobs (id) WHERE stop = 2 AND status = 1;

-- The attempts of a job that were followed, or could have been, by another one.
CREATE TABLE attempts (
    job_id        uuid NOT NULL,
    started_at    bigint NOT NULL,
    completed_at  bigint NOT NULL,
    duration_ms   bigint,
    status_code   integer,
    number        smallint NOT NULL,
    error_code    text,
    error_message text,
    timings       text,
    PRIMARY KEY (job_id, number)
) PARTITION BY RANGE (job_id);

-- Ranges of ticks that became no jobs. last_tick and count change, so no index has them.
CREATE TABLE skips (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id  uuid NOT NULL,
    schedule_id uuid NOT NULL,
    first_tick  bigint NOT NULL,
    last_tick   bigint NOT NULL,
    count       integer NOT NULL,
    reason      text NOT NULL
);
CREATE INDEX skips_schedule ON skips (schedule_id, first_tick, id);
CREATE INDEX skips_age ON skips (first_tick);
