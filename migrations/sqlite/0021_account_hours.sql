-- The jobs of an account that ended in an hour, for charts. slot: the start of the hour (UTC); rows
-- of PostgreSQL add a number below 3,600,000. lag_*: the jobs by the time from the instant for which
-- they were scheduled to their first attempt; each column has those above the bound of the one before.
CREATE TABLE account_hours (
    account_id BLOB NOT NULL,
    slot       INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    lag_10ms   INTEGER NOT NULL,
    lag_50ms   INTEGER NOT NULL,
    lag_100ms  INTEGER NOT NULL,
    lag_250ms  INTEGER NOT NULL,
    lag_1s     INTEGER NOT NULL,
    lag_10s    INTEGER NOT NULL,
    lag_1min   INTEGER NOT NULL,
    lag_more   INTEGER NOT NULL,
    PRIMARY KEY (account_id, slot)
) STRICT, WITHOUT ROWID;
-- Old hours are deleted.
CREATE INDEX account_hours_slot ON account_hours (slot);
