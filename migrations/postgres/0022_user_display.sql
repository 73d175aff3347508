-- The way in which pages show times to a user. time_zone: the name of an IANA zone; empty for the
-- zone of the browser. has_12_hour_clock: times are shown such as 5:40 PM instead of 17:40.
ALTER TABLE users ADD COLUMN time_zone text;
ALTER TABLE users ADD COLUMN has_12_hour_clock boolean NOT NULL DEFAULT false;
