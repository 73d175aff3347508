-- The note with which a schedule was paused, its author, and its time in milliseconds since 1970. All
-- are NULL if there is none.
ALTER TABLE schedules ADD COLUMN pause_note TEXT;
ALTER TABLE schedules ADD COLUMN paused_by TEXT;
ALTER TABLE schedules ADD COLUMN paused_at INTEGER;
