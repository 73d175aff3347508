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
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
