-- Whose accounts were changed last, the newest first: what was read of the others before can fire.
-- Replicas of before would not say whose.
UPDATE meta SET value = 13 WHERE name = 'min_compatible';

ALTER TABLE shards ADD COLUMN changed uuid[] NOT NULL DEFAULT '{}';

-- The jobs that wait, by account: what is late of one is found beside however many of another.
CREATE INDEX runs_waiting ON runs (account_id, wake_at) WHERE status = 0;
