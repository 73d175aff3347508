-- The jobs of an account that ended in an hour, for charts. slot: the start of the hour (UTC), plus a
-- number below 3,600,000 that tells rows of the same hour apart, and is larger for later ones: commits
-- at the same time add to different rows, and readers add them up. lag_*: the jobs by the time from
-- the instant for which they were scheduled to their first attempt; each column has those above the
-- bound of the one before. A row of the present hour is updated by every commit. No indexed column
-- changes, so a page with room takes the new version of a row, and the indexes need no new entries.
CREATE TABLE account_hours (
    account_id uuid NOT NULL,
    slot       bigint NOT NULL,
    succeeded  integer NOT NULL,
    failed     integer NOT NULL,
    cancelled  integer NOT NULL,
    lag_10ms   integer NOT NULL,
    lag_50ms   integer NOT NULL,
    lag_100ms  integer NOT NULL,
    lag_250ms  integer NOT NULL,
    lag_1s     integer NOT NULL,
    lag_10s    integer NOT NULL,
    lag_1min   integer NOT NULL,
    lag_more   integer NOT NULL,
    PRIMARY KEY (account_id, slot)
) WITH (fillfactor = 50);
-- Old hours are deleted.
CREATE INDEX account_hours_slot ON account_hours (slot);
