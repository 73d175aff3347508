//! The statements that are not of one account, and why: the file, and how each is told from the
//! others there. An entry is for one statement of a store, so that no entry lets a new one pass.

pub const LISTED: &[(&str, &str)] = &[
    // Firing: the ticks that are due, whoever's they are. Each job gets the account of its schedule.
    ("fire", "SELECT json_group_array(json_array( e.key, hex(s.account_id)"),
    ("statements", "d.place, d.schedule_id, d.account_id"),
    ("ranges", "WITH open AS MATERIALIZED ( SELECT id FROM skips"),
    ("statements", "st.host_key, st.max_attempts, st.fired_up_to"),
    ("firing", "SELECT json_group_array(json_array( e.key, hex(s.version_id)"),
    ("firing", "SELECT st.schedule_id, st.shard, st.version_id,"),
    ("firing", "SELECT json_group_array(json_array(hex(schedule_id), hex(account_id)"),
    ("firing", "SELECT w.schedule, few.jobs"),
    ("firing", "SELECT unhex(e.value), (SELECT count(*)"),
    // Executing: the jobs of a batch of tickets, each with the account that is told of it.
    ("claims", "SELECT json_group_array(json_array( e.key, hex(j.account_id)"),
    ("claims", "UPDATE runs SET status"),
    ("claims", "FROM runs AS t LEFT JOIN schedule_versions"),
    ("claims", "SELECT id FROM runs INDEXED BY runs_cancelled"),
    ("claims", "SELECT id FROM runs WHERE stop = 2"),
    ("claims", "SELECT attempt_number FROM runs WHERE id"),
    ("tickets", "SELECT j.id, j.shard, j.account_id,"),
    // Sweeping: what is overdue.
    ("claims", "SELECT j.id, j.shard, j.account_id,"),
    ("claims", "ORDER BY e.alive_until"),
    // What an executor has claimed itself.
    ("claims", "AND r.attempt_started_at <"),
    // Which leases no job needs any more.
    ("claims", "WITH over AS ( DELETE FROM executors"),
    ("claims", "DELETE FROM executors WHERE alive_until"),
    ("late", "WITH RECURSIVE waiting"),
    ("late", "SELECT j.account_id, j.id, j.shard, v.host_key"),
    // The days of history that they need.
    ("partitions", "SELECT DISTINCT ms - ms"),
    // Counting them, for the metrics.
    ("upkeep", "SELECT count(*) AS jobs, min(wake_at) AS since"),
    // Committing: the outcomes of a batch, each of the claim that its executor holds.
    ("batch", "SELECT st.schedule_id, st.active_job_id, st.held_job_id"),
    ("batch", "SELECT c.place, j.* FROM"),
    ("ending", "SELECT json_group_array(json_array( e.key, hex(j.schedule_id)"),
    ("commit", "INSERT INTO jobs (id, account_id"),
    ("commit", "DELETE FROM runs WHERE id IN"),
    ("commit", "UPDATE jobs AS j SET status = c.final"),
    ("commit", "UPDATE runs SET status = 0"),
    ("commit", "UPDATE runs AS r SET status = 0"),
    // What those outcomes raise, for the accounts of their schedules.
    ("raising", "UPDATE schedule_state SET alerted_at"),
    ("raising", "INSERT INTO notification_events"),
    // Relaying: events and incidents that are due, whoever's they are. Each says whose it is.
    ("relaying", "FROM notification_events"),
    ("relaying", "SELECT id, channel_id FROM notification_incidents"),
    ("relaying", "SELECT schedule_id, channel_id FROM preference_channels"),
    ("relaying", "SELECT id, verified, paused_until"),
    ("relaying", "SELECT {} FROM {} CROSS JOIN notification_incidents"),
    ("relaying", "SELECT {} FROM notification_incidents WHERE {};"),
    ("relaying", "SELECT incident_id, schedule_id, failing"),
    ("relaying", "SELECT incident_id, id FROM notification_deliveries"),
    ("planned", "INSERT INTO notification_deliveries"),
    ("planned", "UPDATE notification_deliveries SET status = r.status"),
    ("planned", "INSERT INTO notification_incidents"),
    ("planned", "INSERT INTO incident_schedules"),
    ("planned", "UPDATE notification_channels SET window_began"),
    // Events that were relayed, incidents that are over, and deliveries that are old: by their ids.
    ("planned", "DELETE FROM {table} WHERE {}"),
    // Delivering: what is due, whoever's it is. Each goes to the channel that it was planned for.
    ("work", "WITH gone AS"),
    ("claiming", "FROM notification_deliveries WHERE status < 3 AND status = {status}"),
    ("claiming", "SELECT placed.id, placed.account_id, placed.channel_id"),
    ("claiming", "SELECT DISTINCT channel_id, account_id"),
    ("claiming", "AND status IN (1, 2) AND wake_at <= $2"),
    ("claiming", "SELECT d.id, d.account_id, d.channel_id"),
    ("claiming", "UPDATE notification_deliveries SET status = 4"),
    ("claiming", "UPDATE notification_deliveries SET status = 2"),
    ("claiming", "UPDATE notification_deliveries SET wake_at = $1"),
    ("content", "FROM jobs AS j JOIN schedule_versions"),
    // The ends of tries, each of the claim that its notifier holds.
    ("tries", "SELECT id, revision FROM notification_channels WHERE"),
    ("tries", "SELECT id, tries, claimed_by FROM notification_deliveries"),
    ("tries", "INSERT INTO delivery_tries"),
    ("tries", "UPDATE notification_deliveries SET status = r.status"),
    // Each row gets the account of the call.
    ("preferences", "INSERT INTO preference_channels"),
    // What follows from a schedule's state, which belongs to one that was found.
    ("overlap", "UPDATE runs SET wake_at = "),
    ("overlap", "UPDATE schedule_state SET active_job_id = (SELECT"),
    ("passing", "SELECT id FROM runs WHERE id = ANY ($1);"),
    ("passing", "SELECT id FROM runs WHERE id = ANY ($1) ORDER BY"),
    ("skips", "UPDATE skips AS k SET last_tick = $3"),
    ("skips", "UPDATE skips SET last_tick = ?2"),
    ("skips", "SELECT id, last_tick, reason FROM skips WHERE schedule_id"),
    ("skips", "SELECT EXISTS (SELECT 1 FROM jobs WHERE schedule_id"),
    // Attempts belong to a job: one that ends, one that was found for its account, one that goes.
    ("commit", "INSERT INTO attempts (job_id,"),
    ("commit", "UPDATE attempts SET response"),
    ("attempts", "INSERT INTO attempts (job_id,"),
    ("jobs", "WITH ended AS (DELETE FROM runs"),
    ("attempts", "UPDATE attempts SET response"),
    ("jobs", "SELECT number, started_at, completed_at"),
    ("prune", "DELETE FROM attempts WHERE job_id"),
    // The version of a schedule that was found for its account, in the same statement.
    ("jobs", "WITH made AS ( INSERT INTO runs"),
    ("trigger", "WITH admitted AS MATERIALIZED ( SELECT suspended_at FROM accounts WHERE id = $3"),
    // The rows of a page, by the ids that were found for the account.
    ("job_list", "SELECT , substr(j.response,"),
    ("schedule_list", "SELECT FROM json_each(?1) AS e"),
    ("schedule_list", "SELECT FROM unnest($1::uuid[]) WITH ORDINALITY"),
    // Authentication asks whose the key is, what a user belongs to, and what an invitation is for.
    ("accounts", "SELECT k.account_id, k.digest,"),
    ("user_rows", "SELECT m.account_id, a.name, m.role"),
    ("user_rows", "SELECT m.account_id FROM memberships"),
    ("user_rows", "DELETE FROM invitations WHERE digest = $1"),
    ("user_rows", "SELECT EXISTS (SELECT 1 FROM invitations WHERE digest"),
    // Of the keys that were used, with the accounts that authentication has found.
    ("accounts", "UPDATE api_keys SET last_used_at"),
    ("accounts", "UPDATE api_keys AS k SET last_used_at"),
    // Accounts that lack a secret.
    ("signing", "SELECT id, created_at FROM accounts AS a WHERE NOT EXISTS"),
    // The counters of the accounts of a batch, each beside its own.
    ("quotas", "SELECT w.id FROM (SELECT unhex(value) AS id"),
    ("quotas", "SELECT w.account_id FROM unnest"),
    ("quotas", "SELECT (SELECT count(*) FROM (SELECT"),
    ("quotas", "INSERT INTO account_months (account_id, month, reserved) SELECT w.account_id"),
    ("quotas", "DELETE FROM account_months WHERE account_id = ANY ($1)"),
    ("quotas", "WITH held AS MATERIALIZED ( SELECT m.account_id, m.reserved"),
    // The end of their time does not depend on whose they are.
    ("prune", "DELETE FROM skips WHERE"),
    ("prune", "DELETE FROM schedule_versions WHERE"),
    ("prune", "SELECT id FROM jobs WHERE id <"),
    ("prune", "SELECT EXISTS (SELECT FROM runs WHERE id BETWEEN"),
    ("prune", "DELETE FROM {table} WHERE id"),
    ("audit", "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE id <"),
    ("listing", "SELECT id FROM notification_deliveries WHERE id < $1 AND status > 2"),
    ("idempotency", "DELETE FROM idempotency_keys WHERE id IN (SELECT"),
    ("signing", "DELETE FROM signing_secrets WHERE id IN (SELECT"),
    ("upkeep", "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE coalesce("),
    ("user_rows", "DELETE FROM invitations WHERE expires_at"),
    // How the shards of all accounts stand.
    ("upkeep", "SELECT n.shard, s.replica, s.epoch"),
    ("upkeep", "SELECT count(*) FROM (SELECT"),
    // The secrets of all accounts are sealed with one key; a row's own account opens them.
    ("secrets", "SELECT id FROM {name} WHERE id > ?2"),
    ("secrets", "SELECT id, account_id, {} FROM {name} WHERE"),
    ("secret_rows", "SELECT count(*) FROM {name} WHERE {is_stale}"),
    ("secret_rows", "SELECT id, account_id, {} FROM {name} WHERE id > $2"),
    ("secret_rows", "UPDATE {name} SET {} WHERE id = $1"),
    // Copying a whole store.
    ("copy", "SELECT s.id, st.next_tick"),
    ("copy", "SELECT count(*) FROM {}"),
    ("copy", "SELECT {key}, {schedule}, json_object({columns}) FROM {from}"),
    ("copy", "SELECT EXISTS (SELECT FROM accounts) OR EXISTS"),
    ("copy", "WITH incoming AS MATERIALIZED (SELECT"),
    ("copy", "DELETE FROM schedule_state AS st WHERE NOT EXISTS"),
    ("copy", "SELECT setval(pg_get_serial_sequence('skips', 'id')"),
];
