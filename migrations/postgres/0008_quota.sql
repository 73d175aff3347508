-- How often an account was suspended or resumed: what a leader has read before that does not fire.
ALTER TABLE shards ADD COLUMN suspensions bigint NOT NULL DEFAULT 0;
