-- What accounts are allowed: the name of a plan of the configuration. While an account is
-- suspended, suspended_at says since when; resumed_at is when it last was resumed: ticks up to then
-- do not fire any more.
ALTER TABLE accounts ADD COLUMN plan text NOT NULL DEFAULT 'unlimited';
ALTER TABLE accounts ADD COLUMN suspended_at bigint;
ALTER TABLE accounts ADD COLUMN resumed_at bigint;

-- How many jobs an account whose plan limits them may have made in a month (year * 100 + month, in
-- UTC): leaders reserve some ahead. exhausted_at: when more were wanted than the plan allows, which
-- is told once.
CREATE TABLE account_months (
    account_id   uuid NOT NULL,
    month        bigint NOT NULL,
    reserved     bigint NOT NULL,
    exhausted_at bigint,
    PRIMARY KEY (account_id, month)
) WITH (fillfactor = 70);
