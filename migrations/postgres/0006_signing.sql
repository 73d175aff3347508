-- The secrets that accounts' requests are signed with, encrypted. The first one of an account has
-- the account's id. expires_at: from when on it does not sign any more; the newest one has none.
CREATE TABLE signing_secrets (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    secret     text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint
);
CREATE INDEX signing_secrets_account ON signing_secrets (account_id, id);

-- When a key was used last, give or take a minute.
ALTER TABLE api_keys ADD COLUMN last_used_at bigint;
