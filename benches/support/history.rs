//! A month of history, written into the store of a stopped service: finished jobs with their
//! attempts and their hours, skips, versions, alerts and entries of the audit log.
//!
//! The first schedule of the account has three tenths of the jobs, the second one a tenth, the last
//! one none, and the others share the rest. Of the second schedule no job fails.

use punctual::domain::Timestamp;

use super::database::Database;

/// The span of the history, in milliseconds.
const SPAN: i64 = 30 * 86_400_000;

/// The account, and the numbers of its objects.
pub struct History<'a> {
    /// The name of the account.
    pub account: &'a str,
    /// The number of its schedules.
    pub schedules: usize,
    /// The number of jobs that finished in the last 30 days.
    pub jobs: usize,
    /// The number of skips, alerts that were sent, and entries of the audit log.
    pub events: usize,
    /// The number of versions that the first schedule had before.
    pub versions: usize,
    /// The id of the first schedule, as entries of the audit log name it.
    pub first: &'a str,
}

impl History<'_> {
    /// Writes the history up to `now`.
    pub fn write(&self, database: &mut Database, now: Timestamp) {
        let (now, Self { account, .. }) = (now.as_millis(), self);
        // Rows of the account's schedules by their place in the order of their ids.
        database.run(&format!(
            "CREATE TEMPORARY TABLE placed AS
             SELECT row_number() OVER (ORDER BY s.id) - 1 AS place, s.id, s.account_id,
                    s.version_id, s.shard
             FROM schedules AS s JOIN accounts AS a ON a.id = s.account_id
             WHERE a.name = '{account}'"
        ));
        database.run("CREATE INDEX placed_place ON placed (place)");
        database.run("CREATE INDEX placed_id ON placed (id)");
        database.analyze();
        self.states(database, now);
        self.jobs(database, now);
        self.skips(database, now);
        self.versions(database, now);
        self.alerts(database, now);
        self.audit_log(database, now);
        database.run("DROP TABLE placed");
    }

    /// One of twenty schedules fails, and one of twenty-five is paused.
    fn states(&self, database: &mut Database, now: i64) {
        database.run(&format!(
            "UPDATE schedule_state SET
                 last_run_at = {now} - 1000 * (SELECT place FROM placed WHERE id = schedule_id),
                 last_job_status =
                     CASE (SELECT place FROM placed WHERE id = schedule_id) % 20 WHEN 3 THEN 3
                     ELSE 2 END,
                 consecutive_failures =
                     CASE (SELECT place FROM placed WHERE id = schedule_id) % 20 WHEN 3 THEN 4
                     ELSE 0 END
             WHERE schedule_id IN (SELECT id FROM placed WHERE place < {})",
            self.schedules - 1
        ));
        let paused = "IN (SELECT id FROM placed WHERE place % 25 = 2)";
        database.run(&format!(
            "UPDATE schedules SET is_enabled = false, pause_note = 'until the migration',
                                  paused_at = {now} WHERE id {paused}"
        ));
        database
            .run(&format!("UPDATE schedule_state SET next_tick = NULL WHERE schedule_id {paused}"));
    }

    /// Jobs, evenly spread over the month. One of twenty failed, after three attempts; of the
    /// others, one of a hundred had two.
    fn jobs(&self, database: &mut Database, now: i64) {
        let (jobs, others) = (self.jobs, self.schedules.saturating_sub(3).max(1));
        let id = database.either(
            "(lpad(to_hex(m.at), 12, '0') || substr(md5(m.i || p.id::text), 1, 20))::uuid",
            "unhex(printf('%012x', m.at) || hex(randomblob(10)))",
        );
        database.run(&format!(
            "INSERT INTO jobs (
                 id, account_id, schedule_id, version_id, created_at, updated_at, started_at,
                 completed_at, attempt_started_at, status, trigger, attempt_number, max_attempts,
                 error_code, error_message, duration_ms, timings, status_code, response_truncated,
                 response_headers, response)
             WITH RECURSIVE n (i) AS (
                 SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {jobs}),
             m AS (
                 SELECT i, {now} - {SPAN} + CAST(i AS bigint) * ({SPAN} / {jobs}) AS at,
                     CASE WHEN i % 10 < 3 THEN 0 WHEN i % 10 = 3 THEN 1
                         ELSE 2 + (i / 10 * 6 + i % 10 - 4) % {others} END AS place,
                     CASE WHEN i % 10 <> 3 AND i / 7 % 20 = 5 THEN 3 ELSE 2 END AS status,
                     CASE WHEN i % 1000 = 11 THEN 1 WHEN i % 1000 = 500 THEN 2
                         WHEN i % 5000 = 21 THEN 3 ELSE 0 END AS trigger,
                     CASE WHEN i % 50 = 7 THEN 2000 ELSE i % 9 END AS lag, 20 + i * 7 % 900 AS took
                 FROM n)
             SELECT {id}, p.account_id, p.id, p.version_id, m.at, m.at + m.lag + m.took,
                 m.at + m.lag, m.at + m.lag + m.took, m.at + m.lag, m.status, m.trigger,
                 CASE WHEN m.status = 3 THEN 3 WHEN m.i % 100 = 17 THEN 2 ELSE 1 END, 3,
                 CASE WHEN m.status = 3 THEN 'HTTP_STATUS' END,
                 CASE WHEN m.status = 3 THEN 'the target answered 503' END, m.took, NULL,
                 CASE WHEN m.status = 3 THEN 503 ELSE 200 END, false,
                 '{{\"content-type\":\"application/json\"}}',
                 '{{\"accepted\":true,\"items\":[1,2,3],\"took\":\"some milliseconds\"}}'
             FROM m JOIN placed AS p ON p.place = m.place ORDER BY m.i"
        ));
        for (number, condition) in [(1, "attempt_number > 1"), (2, "attempt_number > 2")] {
            database.run(&format!(
                "INSERT INTO attempts (job_id, number, started_at, completed_at, duration_ms,
                                       status_code, error_code, error_message)
                 SELECT id, {number}, started_at, completed_at, duration_ms, 503, 'HTTP_STATUS',
                     'the target answered 503'
                 FROM jobs WHERE {condition} AND account_id IN (SELECT account_id FROM placed)"
            ));
        }
        database.run(
            "INSERT INTO account_hours (
                 account_id, slot, succeeded, failed, cancelled, lag_10ms, lag_50ms, lag_100ms,
                 lag_250ms, lag_1s, lag_10s, lag_1min, lag_more)
             SELECT account_id, completed_at - completed_at % 3600000,
                 count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3), 0,
                 count(*) FILTER (WHERE started_at - created_at <= 10), 0, 0, 0, 0,
                 count(*) FILTER (WHERE started_at - created_at > 10), 0, 0
             FROM jobs WHERE account_id IN (SELECT account_id FROM placed) GROUP BY 1, 2",
        );
    }

    /// Skips; half of them are of the first schedule.
    fn skips(&self, database: &mut Database, now: i64) {
        let (events, schedules) = (self.events, self.schedules);
        database.run(&format!(
            "INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
             WITH RECURSIVE n (i) AS (
                 SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {events}),
             m AS (
                 SELECT {now} - {SPAN} + i * ({SPAN} / {events}) AS at,
                     i % 2 * (i * 7 % {schedules}) AS place FROM n)
             SELECT p.account_id, p.id, m.at, m.at + 60000, 2, 'overlap'
             FROM m JOIN placed AS p ON p.place = m.place"
        ));
    }

    /// Old versions of the first schedule, with their entries in the audit log.
    fn versions(&self, database: &mut Database, now: i64) {
        let at = format!("({now} - {SPAN} + i * {})", SPAN / 1_000_000 * 1_000);
        let version = database
            .either(
                "(lpad(to_hex({at}), 12, '0') || substr(md5(i || p.id::text), 1, 20))::uuid",
                "unhex(printf('%012x', {at}) || hex(randomblob(10)))",
            )
            .replace("{at}", &at);
        let numbers = format!(
            "WITH RECURSIVE n (i) AS (
                 SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {})",
            self.versions
        );
        database.run(&format!(
            "INSERT INTO schedule_versions (
                 id, account_id, schedule_id, host_key, cron_expression, timezone, endpoint,
                 http_method, max_retries, timeout_seconds, sign_requests, created_at, retired_at)
             {numbers}
             SELECT {version}, v.account_id, v.schedule_id, v.host_key,
                 (i % 60) || ' 3 * * *', v.timezone, v.endpoint, v.http_method, v.max_retries,
                 v.timeout_seconds, v.sign_requests, {at}, {at} + 1
             FROM n, placed AS p JOIN schedule_versions AS v ON v.id = p.version_id
             WHERE p.place = 0"
        ));
        let entry = database
            .either(
                "(lpad(to_hex({at}), 12, '0') || substr(md5('entry' || i || p.id), 1, 20))::uuid",
                "unhex(printf('%012x', {at}) || hex(randomblob(10)))",
            )
            .replace("{at}", &at);
        database.run(&format!(
            "INSERT INTO audit_log (id, account_id, actor, action, object, origin)
             {numbers}
             SELECT {entry}, p.account_id, 'operator:root', 'schedule.updated', '{}', '127.0.0.1'
             FROM n, placed AS p WHERE p.place = 0",
            self.first
        ));
    }

    /// Every other schedule reports failures to the account's oldest channel. Of its alerts, one of
    /// ten failed.
    fn alerts(&self, database: &mut Database, now: i64) {
        let channel = "(SELECT c.id FROM notification_channels AS c
                        WHERE c.account_id = p.account_id ORDER BY c.id LIMIT 1)";
        database.run(
            "UPDATE notification_channels SET verified = true
             WHERE account_id IN (SELECT account_id FROM placed)",
        );
        database.run(
            "INSERT INTO notification_preferences (
                 schedule_id, account_id, notify_on, failure_threshold, notify_on_recovery)
             SELECT id, account_id, 'failure', 1, false FROM placed WHERE place % 2 = 0",
        );
        database.run(&format!(
            "INSERT INTO preference_channels (schedule_id, number, account_id, channel_id)
             SELECT p.id, 0, p.account_id, {channel} FROM placed AS p WHERE p.place % 2 = 0"
        ));
        let id = database.either(
            "(lpad(to_hex(m.at), 12, '0') || substr(md5('alert' || m.i || p.id), 1, 20))::uuid",
            "unhex(printf('%012x', m.at) || hex(randomblob(10)))",
        );
        let (events, schedules) = (self.events, self.schedules);
        database.run(&format!(
            "INSERT INTO notification_deliveries (
                 id, account_id, channel_id, event_id, schedule_id, type, status, tries, round,
                 failures, at, created_at, completed_at, schedule_name, error_code, error_message)
             WITH RECURSIVE n (i) AS (
                 SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {events}),
             m AS (SELECT i, {now} - {SPAN} + i * ({SPAN} / {events}) AS at FROM n)
             SELECT {id}, p.account_id, {channel}, {id}, p.id, 'job.failed',
                 CASE WHEN m.i % 10 = 0 THEN 4 ELSE 3 END, 1, 1, 1, m.at, m.at, m.at + 80, 'bench',
                 CASE WHEN m.i % 10 = 0 THEN 'TIMEOUT' END, CASE WHEN m.i % 10 = 0 THEN 'late' END
             FROM m JOIN placed AS p ON p.place = m.i * 2 % {schedules}"
        ));
        database.run(
            "INSERT INTO delivery_tries (delivery_id, number, account_id, started_at, completed_at)
             SELECT id, 1, account_id, at, at + 80 FROM notification_deliveries
             WHERE account_id IN (SELECT account_id FROM placed)",
        );
    }

    /// Entries of the audit log, by two actors.
    fn audit_log(&self, database: &mut Database, now: i64) {
        let id = database.either(
            "(lpad(to_hex(m.at), 12, '0') || substr(md5('log' || m.i || p.id), 1, 20))::uuid",
            "unhex(printf('%012x', m.at) || hex(randomblob(10)))",
        );
        let (events, first) = (self.events, self.first);
        database.run(&format!(
            "INSERT INTO audit_log (id, account_id, actor, action, object, origin)
             WITH RECURSIVE n (i) AS (
                 SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {events}),
             m AS (SELECT i, {now} - {SPAN} + i * ({SPAN} / {events}) AS at FROM n)
             SELECT {id}, p.account_id,
                 CASE WHEN m.i % 1000 = 0 THEN 'operator:rare' ELSE 'operator:often' END,
                 CASE WHEN m.i % 2 = 0 THEN 'schedule.triggered' ELSE 'job.retried' END, '{first}',
                 '127.0.0.1'
             FROM m JOIN placed AS p ON p.place = 0"
        ));
    }
}
