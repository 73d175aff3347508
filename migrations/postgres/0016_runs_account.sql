-- Runs come and go, so the statistics often say that the table is empty. The planner then takes any
-- index with the column id for a lookup by id, and read all of runs_account for each job. A partial
-- index is used only by statements that state its condition, which all runs meet.
DROP INDEX runs_account;
CREATE INDEX runs_account ON runs (account_id, id) WHERE status < 2;
