-- The versions of a schedule are listed newest first.
CREATE INDEX schedule_versions_schedule ON schedule_versions (schedule_id, id);
