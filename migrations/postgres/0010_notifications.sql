-- Notification channels, preferences and alerts.

-- What a commit must know to raise an event. alert_on: NULL without a preference, else the sum of 1
-- failures, 2 successes, 4 recoveries. alerted_at: when a failure of the present row of failures was
-- last told. failures_before: the row of failures that the last success has ended.
ALTER TABLE schedule_state ADD COLUMN alert_on smallint;
ALTER TABLE schedule_state ADD COLUMN alert_threshold integer;
ALTER TABLE schedule_state ADD COLUMN alert_repeat_minutes integer;
ALTER TABLE schedule_state ADD COLUMN alerted_at bigint;
ALTER TABLE schedule_state ADD COLUMN failures_before integer;

-- config is encrypted. revision rises with each change of config. trouble: why the channel is not
-- verified any more. tries_since, tries: test notifications since that instant. paused_until: the
-- provider asked for no alerts before. window_began, window_sent: alerts of the present minute;
-- digest_id: the delivery that takes what comes beyond the limit.
CREATE TABLE notification_channels (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL,
    type         text NOT NULL,
    label        text NOT NULL,
    config       text NOT NULL,
    revision     bigint NOT NULL,
    verified     boolean NOT NULL,
    trouble      text,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    tries_since  bigint NOT NULL DEFAULT 0,
    tries        integer NOT NULL DEFAULT 0,
    paused_until bigint NOT NULL DEFAULT 0,
    window_began bigint NOT NULL DEFAULT 0,
    window_sent  integer NOT NULL DEFAULT 0,
    digest_id    uuid
);
CREATE INDEX notification_channels_account ON notification_channels (account_id, id);

-- detached: the label of a channel that was deleted since the preference was set.
CREATE TABLE notification_preferences (
    schedule_id          uuid PRIMARY KEY,
    account_id           uuid NOT NULL,
    notify_on            text NOT NULL,
    failure_threshold    integer NOT NULL,
    notify_on_recovery   boolean NOT NULL,
    repeat_every_minutes integer,
    detached             text
);
CREATE INDEX notification_preferences_account ON notification_preferences (account_id, schedule_id);

CREATE TABLE preference_channels (
    schedule_id uuid NOT NULL,
    number      smallint NOT NULL,
    account_id  uuid NOT NULL,
    channel_id  uuid NOT NULL,
    PRIMARY KEY (schedule_id, number)
);
CREATE INDEX preference_channels_channel ON preference_channels (channel_id, schedule_id);
CREATE INDEX preference_channels_account ON preference_channels (account_id, schedule_id);

-- The outbox: written by the transaction that ends a job, removed by the one that plans deliveries.
-- wanted: whether channels are told, or only incidents.
CREATE TABLE notification_events (
    id            uuid PRIMARY KEY,
    account_id    uuid NOT NULL,
    schedule_id   uuid NOT NULL,
    job_id        uuid NOT NULL,
    type          text NOT NULL,
    at            bigint NOT NULL,
    host_key      bigint NOT NULL,
    failures      integer NOT NULL,
    wanted        boolean NOT NULL,
    schedule_name text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX notification_events_account ON notification_events (account_id);

-- A host that schedules fail against, as one channel is told of it. stage: 0 gathering, 1 watching,
-- 2 open. due_at: when the notifier has to look at it again.
CREATE TABLE notification_incidents (
    id               uuid PRIMARY KEY,
    account_id       uuid NOT NULL,
    channel_id       uuid NOT NULL,
    host_key         bigint NOT NULL,
    stage            smallint NOT NULL,
    due_at           bigint NOT NULL,
    gather_until     bigint NOT NULL,
    since            bigint NOT NULL,
    opened_at        bigint,
    last_failure_at  bigint NOT NULL,
    last_recovery_at bigint,
    schedules        integer NOT NULL,
    failing          integer NOT NULL,
    gathered         integer NOT NULL,
    failures         integer NOT NULL,
    opening_id       uuid,
    job_id           uuid NOT NULL,
    names            text NOT NULL,
    UNIQUE (channel_id, host_key)
);
CREATE INDEX notification_incidents_due ON notification_incidents (due_at);
CREATE INDEX notification_incidents_account ON notification_incidents (account_id);

-- The id follows from incident and schedule.
CREATE TABLE incident_schedules (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL,
    incident_id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    failing     boolean NOT NULL
);
CREATE INDEX incident_schedules_incident ON incident_schedules (incident_id, schedule_id);
CREATE INDEX incident_schedules_account ON incident_schedules (account_id);

-- status: 0 held until its incident is judged, 1 waiting for a try, 2 being tried, 3 delivered,
-- 4 failed, 5 merged into another one. wake_at: while waiting, when the next try is due; while being
-- tried, when the claim ends. round_began, round: since when, and from which try on, the present
-- five tries count. content: what a digest or an incident says, as JSON. Vacuumed early: the index of what
-- is open is read four times a second, which takes 15 ms with 500,000 dead entries in it, else under 1.
CREATE TABLE notification_deliveries (
    id            uuid PRIMARY KEY,
    account_id    uuid NOT NULL,
    channel_id    uuid,
    event_id      uuid NOT NULL,
    schedule_id   uuid,
    job_id        uuid,
    incident_id   uuid,
    merged_into   uuid,
    claimed_by    uuid,
    type          text NOT NULL,
    status        smallint NOT NULL,
    tries         smallint NOT NULL DEFAULT 0,
    round         smallint NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    status_code   integer,
    at            bigint NOT NULL,
    created_at    bigint NOT NULL,
    round_began   bigint,
    wake_at       bigint,
    started_at    bigint,
    completed_at  bigint,
    schedule_name text,
    error_code    text,
    error_message text,
    content       text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
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
    delivery_id   uuid NOT NULL,
    number        smallint NOT NULL,
    account_id    uuid NOT NULL,
    started_at    bigint NOT NULL,
    completed_at  bigint NOT NULL,
    status_code   integer,
    error_code    text,
    error_message text,
    response      text,
    PRIMARY KEY (delivery_id, number)
);
CREATE INDEX delivery_tries_account ON delivery_tries (account_id, delivery_id);
