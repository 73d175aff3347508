-- Secrets are encrypted from here on: schedule_versions.body and .headers, unless they were stored
-- before. A binary that does not know that would send them as they are, and spoil them when a schedule is
-- changed: so all replicas have to be stopped first, and this is not applied while one works.
UPDATE meta SET value = 3 WHERE name = 'min_compatible';

-- The keys that stored secrets may be sealed with, each with a text that it has sealed.
CREATE TABLE secret_keys (
    id    TEXT PRIMARY KEY NOT NULL,
    proof TEXT NOT NULL
) STRICT, WITHOUT ROWID;
