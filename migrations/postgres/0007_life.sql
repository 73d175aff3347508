-- Accounts that were deleted: their row moves from accounts to here, so that they cannot be used any
-- more; what they had is removed in small batches, until gone_at. actor, origin: who did it, and
-- from where, as in the audit log.
CREATE TABLE deleted_accounts (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    deleted_at bigint NOT NULL,
    actor      text NOT NULL,
    origin     text NOT NULL,
    gone_at    bigint
);
CREATE INDEX deleted_accounts_open ON deleted_accounts (id) WHERE gone_at IS NULL;

-- What an account has is found by the account.
CREATE INDEX schedule_versions_account ON schedule_versions (account_id, id);
CREATE INDEX skips_account ON skips (account_id, first_tick, id);
CREATE INDEX idempotency_keys_account ON idempotency_keys (account_id);

-- Since when, or from when on, a key does not work.
CREATE INDEX api_keys_over ON api_keys ((coalesce(revoked_at, expires_at)));
