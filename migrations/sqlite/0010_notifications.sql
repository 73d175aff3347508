-- Notification channels, preferences and alerts.

-- What a commit must know to raise an event. alert_on: NULL without a preference, else the sum of 1
-- failures, 2 successes, 4 recoveries. alerted_at: when a failure of the present row of failures was
-- last told.
ALTER TABLE schedule_state ADD COLUMN alert_on INTEGER;
ALTER TABLE schedule_state ADD COLUMN alert_threshold INTEGER;
ALTER TABLE schedule_state ADD COLUMN alert_repeat_minutes INTEGER;
ALTER TABLE schedule_state ADD COLUMN alerted_at INTEGER;

-- config is encrypted. revision rises with each change of config. trouble: why the channel is not
-- verified any more. tries_since, tries: test notifications since that instant. paused_until: the
-- provider asked for no alerts before. window_began, window_sent: alerts of the present minute;
-- digest_id: the delivery that takes what comes beyond the limit.
CREATE TABLE notification_channels (
    id           BLOB PRIMARY KEY NOT NULL,
    account_id   BLOB NOT NULL,
    type         TEXT NOT NULL,
    label        TEXT NOT NULL,
    config       TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    verified     INTEGER NOT NULL,
    trouble      TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    tries_since  INTEGER NOT NULL DEFAULT 0,
    tries        INTEGER NOT NULL DEFAULT 0,
    paused_until INTEGER NOT NULL DEFAULT 0,
    window_began INTEGER NOT NULL DEFAULT 0,
    window_sent  INTEGER NOT NULL DEFAULT 0,
    digest_id    BLOB
) STRICT;
CREATE INDEX notification_channels_account ON notification_channels (account_id, id);

-- detached: the label of a channel that was deleted since the preference was set.
CREATE TABLE notification_preferences (
    schedule_id          BLOB PRIMARY KEY NOT NULL,
    account_id           BLOB NOT NULL,
    notify_on            TEXT NOT NULL,
    failure_threshold    INTEGER NOT NULL,
    notify_on_recovery   INTEGER NOT NULL,
    repeat_every_minutes INTEGER,
    detached             TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX notification_preferences_account ON notification_preferences (account_id, schedule_id);

CREATE TABLE preference_channels (
    schedule_id BLOB NOT NULL,
    number      INTEGER NOT NULL,
    account_id  BLOB NOT NULL,
    channel_id  BLOB NOT NULL,
    PRIMARY KEY (schedule_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX preference_channels_channel ON preference_channels (channel_id, schedule_id);
CREATE INDEX preference_channels_account ON preference_channels (account_id, schedule_id);

-- The outbox: written by the transaction that ends a job, removed by the one that plans deliveries.
-- wanted: whether channels are told, or only incidents.
CREATE TABLE notification_events (
    id            BLOB PRIMARY KEY NOT NULL,
    account_id    BLOB NOT NULL,
    schedule_id   BLOB NOT NULL,
    job_id        BLOB NOT NULL,
    type          TEXT NOT NULL,
    at            INTEGER NOT NULL,
    host_key      INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    wanted        INTEGER NOT NULL,
    schedule_name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notification_events_account ON notification_events (account_id);

-- A host that schedules fail against, as one channel is told of it. stage: 0 gathering, 1 watching,
-- 2 open. due_at: when the notifier has to look at it again.
CREATE TABLE notification_incidents (
    id               BLOB PRIMARY KEY NOT NULL,
    account_id       BLOB NOT NULL,
    channel_id       BLOB NOT NULL,
    host_key         INTEGER NOT NULL,
    stage            INTEGER NOT NULL,
    due_at           INTEGER NOT NULL,
    gather_until     INTEGER NOT NULL,
    since            INTEGER NOT NULL,
    opened_at        INTEGER,
    last_failure_at  INTEGER NOT NULL,
    last_recovery_at INTEGER,
    schedules        INTEGER NOT NULL,
    failing          INTEGER NOT NULL,
    gathered         INTEGER NOT NULL,
    failures         INTEGER NOT NULL,
    opening_id       BLOB,
    job_id           BLOB NOT NULL,
    names            TEXT NOT NULL,
    UNIQUE (channel_id, host_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX notification_incidents_due ON notification_incidents (due_at);
CREATE INDEX notification_incidents_account ON notification_incidents (account_id);

-- The id follows from incident and schedule.
CREATE TABLE incident_schedules (
    id          BLOB PRIMARY KEY NOT NULL,
    account_id  BLOB NOT NULL,
    incident_id BLOB NOT NULL,
    schedule_id BLOB NOT NULL,
    failing     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_schedules_incident ON incident_schedules (incident_id, schedule_id);
CREATE INDEX incident_schedules_account ON incident_schedules (account_id);

-- status: 0 held until its incident is judged, 1 waiting for a try, 2 being tried, 3 delivered,
-- 4 failed, 5 merged into another one. wake_at: while waiting, when the next try is due; while being
-- tried, when the claim ends. round_began, round: since when, and from which try on, the present
-- five tries count. content: what a digest or an incident says, as JSON.
CREATE TABLE notification_deliveries (
    id            BLOB PRIMARY KEY NOT NULL,
    account_id    BLOB NOT NULL,
    channel_id    BLOB,
    event_id      BLOB NOT NULL,
    schedule_id   BLOB,
    job_id        BLOB,
    incident_id   BLOB,
    merged_into   BLOB,
    claimed_by    BLOB,
    type          TEXT NOT NULL,
    status        INTEGER NOT NULL,
    tries         INTEGER NOT NULL DEFAULT 0,
    round         INTEGER NOT NULL DEFAULT 0,
    failures      INTEGER NOT NULL DEFAULT 0,
    status_code   INTEGER,
    at            INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    round_began   INTEGER,
    wake_at       INTEGER,
    started_at    INTEGER,
    completed_at  INTEGER,
    schedule_name TEXT,
    error_code    TEXT,
    error_message TEXT,
    content       TEXT
) STRICT;
CREATE INDEX notification_deliveries_account ON notification_deliveries (account_id, id);
CREATE INDEX notification_deliveries_channel ON notification_deliveries (channel_id, id);
CREATE INDEX notification_deliveries_schedule ON notification_deliveries (schedule_id, id);
CREATE INDEX notification_deliveries_open ON notification_deliveries (status, wake_at)
    WHERE status < 3;
CREATE INDEX notification_deliveries_failed ON notification_deliveries (account_id, id)
    WHERE status = 4;
CREATE INDEX notification_deliveries_held ON notification_deliveries (incident_id)
    WHERE status = 0;
CREATE INDEX notification_deliveries_merged ON notification_deliveries (merged_into, id)
    WHERE merged_into IS NOT NULL;

CREATE TABLE delivery_tries (
    delivery_id   BLOB NOT NULL,
    number        INTEGER NOT NULL,
    account_id    BLOB NOT NULL,
    started_at    INTEGER NOT NULL,
    completed_at  INTEGER NOT NULL,
    status_code   INTEGER,
    error_code    TEXT,
    error_message TEXT,
    response      TEXT,
    PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_tries_account ON delivery_tries (account_id, delivery_id);
