-- The secrets that accounts' requests are signed with, encrypted. The first one of an account has
-- the account's id. expires_at: from when on it does not sign any more; the newest one has none.
CREATE TABLE signing_secrets (
    id         BLOB PRIMARY KEY NOT NULL,
    account_id BLOB NOT NULL,
    secret     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_secrets_account ON signing_secrets (account_id, id);

-- When a key was used last, give or take a minute.
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
