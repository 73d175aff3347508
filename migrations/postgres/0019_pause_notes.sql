-- The note with which a schedule was paused, its author, and its time in milliseconds since 1970. All
-- are NULL if there is none.
ALTER TABLE schedules ADD COLUMN pause_note text;
ALTER TABLE schedules ADD COLUMN paused_by text;
ALTER TABLE schedules ADD COLUMN paused_at bigint;
