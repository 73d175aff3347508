-- From when on a signing secret does not sign any more.
CREATE INDEX signing_secrets_over ON signing_secrets (expires_at) WHERE expires_at IS NOT NULL;
