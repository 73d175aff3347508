-- Who did what to which object, from where. Rows are added and, when their time is over, removed;
-- none is changed. When a change was made is in the id.
CREATE TABLE audit_log (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    object     text NOT NULL,
    origin     text NOT NULL
);
CREATE INDEX audit_log_account ON audit_log (account_id, id);
CREATE INDEX audit_log_actor ON audit_log (account_id, actor, id);
CREATE INDEX audit_log_action ON audit_log (account_id, action, id);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Calls that take effect once. id: of account, method, path and the client's key. request: of the
-- body. action, objects: what it took effect on, written with the effect. answer: what was said.
CREATE TABLE idempotency_keys (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL,
    reserved_at bigint NOT NULL,
    request     bytea NOT NULL,
    holder      bytea NOT NULL,
    action      text,
    objects     text,
    answer      text
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (reserved_at);

-- Who made a key: as in the audit log. Unknown of keys that are older than that.
ALTER TABLE api_keys ADD COLUMN created_by text;

-- How long a key was made to work; for ever if that is not said. What takes its place works as long,
-- even if the key itself is only left until the overlap is over.
ALTER TABLE api_keys ADD COLUMN life_ms bigint;
UPDATE api_keys SET life_ms = expires_at - created_at;
