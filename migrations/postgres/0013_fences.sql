-- Whose accounts were changed last, the newest first: what was read of the others before can fire.
-- Replicas of before would not say whose.
UPDATE meta SET value = 13 WHERE name = 'min_compatible';

ALTER TABLE shards ADD COLUMN changed uuid[] NOT NULL DEFAULT '{}';
