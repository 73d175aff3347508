-- Claims last as long as their executor's lease, which is renewed by one write however many they are.
UPDATE meta SET value = 14 WHERE name = 'min_compatible';

-- The executors, each one run of a process. alive_until: when the claims of it end unless it renews
-- its lease; in milliseconds since 1970.
CREATE TABLE executors (
    id          uuid PRIMARY KEY,
    alive_until bigint NOT NULL
);
INSERT INTO executors (id, alive_until)
SELECT claimed_by, max(wake_at) FROM runs WHERE status = 1 GROUP BY claimed_by;

-- From here on wake_at is of the jobs that wait only.
UPDATE runs SET wake_at = NULL WHERE status = 1;
DROP INDEX runs_wake;
CREATE INDEX runs_wake ON runs (wake_at) WHERE status = 0;
CREATE INDEX runs_claimed ON runs (claimed_by) WHERE status = 1;

-- The jobs that have not begun, by schedule: there is a bound of them.
CREATE INDEX runs_unstarted ON runs (schedule_id) WHERE status = 0 AND attempt_number = 0;

-- When the history of an account was last pruned that is shorter than others'; in milliseconds since
-- 1970.
ALTER TABLE accounts ADD COLUMN pruned_at bigint NOT NULL DEFAULT 0;
CREATE INDEX accounts_pruned ON accounts (plan, pruned_at, id);
