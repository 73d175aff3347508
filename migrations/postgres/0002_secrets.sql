-- Secrets are encrypted from here on: schedule_versions.body and .headers, unless they were stored
-- before. A binary that does not know that would send them as they are.
UPDATE meta SET value = 2 WHERE name = 'min_compatible';

-- The keys that stored secrets may be sealed with, each with a text that it has sealed.
CREATE TABLE secret_keys (
    id    text PRIMARY KEY,
    proof text NOT NULL
);

-- What requests are signed with, sealed. An account has one without an end, and the one before it
-- for as long as it still counts.
CREATE TABLE signing_secrets (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    secret     text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint
);
CREATE INDEX signing_secrets_account ON signing_secrets (account_id, id);
CREATE UNIQUE INDEX signing_secrets_current ON signing_secrets (account_id)
    WHERE expires_at IS NULL;
