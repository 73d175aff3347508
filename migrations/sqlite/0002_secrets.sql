-- Secrets are encrypted from here on: schedule_versions.body and .headers, unless they were stored
-- before. A binary that does not know that would send them as they are.
UPDATE meta SET value = 2 WHERE name = 'min_compatible';

-- The keys that stored secrets may be sealed with, each with a text that it has sealed.
CREATE TABLE secret_keys (
    id    TEXT PRIMARY KEY NOT NULL,
    proof TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What requests are signed with, sealed. An account has one without an end, and the one before it
-- for as long as it still counts.
CREATE TABLE signing_secrets (
    id         BLOB PRIMARY KEY NOT NULL,
    account_id BLOB NOT NULL,
    secret     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_secrets_account ON signing_secrets (account_id, id);
CREATE UNIQUE INDEX signing_secrets_current ON signing_secrets (account_id)
    WHERE expires_at IS NULL;
