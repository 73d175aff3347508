//! Statements that are not limited to one account, with reasons. An entry has the file of the
//! statement and a part of its text that is unique in the file. It covers one statement of a store,
//! so it never hides a new one.

pub const LISTED: &[(&str, &str)] = &[
    // Firing: the due ticks of all accounts. Each job gets the account of its schedule.
    ("fire", "SELECT json_group_array(json_array( e.key, hex(s.account_id)"),
    ("statements", "d.position, d.schedule_id, d.account_id"),
    ("ranges", "WITH open AS MATERIALIZED ( SELECT id FROM skips"),
    ("statements", "st.host_key, st.max_attempts, st.fired_up_to"),
    ("firing", "SELECT json_group_array(json_array( e.key, hex(s.version_id)"),
    ("firing", "SELECT st.schedule_id, st.shard, st.version_id,"),
    ("firing", "SELECT json_group_array(json_array(hex(schedule_id), hex(account_id)"),
    ("firing", "SELECT e.id, (SELECT count(*) FROM ("),
    // Executing: the jobs of a batch of tickets, each with its account.
    ("claims", "SELECT json_group_array(json_array( e.key, hex(j.account_id)"),
    ("claims", "UPDATE runs SET status"),
    ("claims", "FROM runs AS t LEFT JOIN schedule_versions"),
    ("claims", "SELECT id FROM runs INDEXED BY runs_cancelled"),
    ("claims", "SELECT id FROM runs WHERE stop = 2"),
    ("claims", "SELECT attempt_number FROM runs WHERE id"),
    ("tickets", "SELECT j.id, j.shard, j.account_id,"),
    // The job rescuer: overdue jobs.
    ("claims", "SELECT j.id, j.shard, j.account_id,"),
    ("claims", "ORDER BY e.alive_until"),
    // The claims of one executor.
    ("claims", "AND r.attempt_started_at <"),
    // The leases that no job needs any more.
    ("claims", "WITH over AS ( DELETE FROM executors"),
    ("claims", "DELETE FROM executors WHERE alive_until"),
    ("late", "WITH RECURSIVE waiting"),
    ("late", "SELECT j.account_id, j.id, j.shard, v.host_key"),
    // The days of history that these jobs need.
    ("partitions", "SELECT DISTINCT ms - ms"),
    // Counting overdue jobs for the metrics.
    ("upkeep", "min(wake_at) AS since FROM (SELECT wake_at FROM runs WHERE"),
    ("upkeep", "min(wake_at) AS since FROM (SELECT wake_at FROM runs INDEXED BY"),
    // Committing: a batch of outcomes, each under the claim of its executor.
    ("batch", "SELECT st.schedule_id, st.active_job_id, st.held_job_id"),
    ("batch", "SELECT c.position, j.* FROM"),
    ("ending", "SELECT json_group_array(json_array( e.key, hex(j.schedule_id)"),
    ("commits", "INSERT INTO jobs (id, account_id"),
    ("commits", "DELETE FROM runs WHERE id IN"),
    ("commits", "UPDATE runs SET status = 0"),
    ("commits", "UPDATE runs AS r SET status = 0"),
    // The events of those outcomes, for the accounts of their schedules.
    ("raising", "UPDATE schedule_state SET alerted_at"),
    ("raising", "INSERT INTO notification_events"),
    // Relaying: the due events and incidents of all accounts. Each row has its account.
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
    // Relayed events, closed incidents and old deliveries, by their ids.
    ("planned", "DELETE FROM {table} WHERE {}"),
    // Delivering: the due deliveries of all accounts. Each goes to its planned channel.
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
    // The ends of delivery tries, each under the claim of its notifier.
    ("tries", "SELECT id, revision FROM notification_channels WHERE"),
    ("tries", "SELECT id, tries, claimed_by FROM notification_deliveries"),
    ("tries", "INSERT INTO delivery_tries"),
    ("tries", "UPDATE notification_deliveries SET status = r.status"),
    // Each row gets the account of the call.
    ("preferences", "INSERT INTO preference_channels"),
    // Statements on the state of a schedule, by ids from a state that was found.
    ("overlap", "UPDATE schedule_state AS st SET active_job_id = held_job_id"),
    ("overlap", "WITH held AS MATERIALIZED ( SELECT id FROM runs"),
    ("overlap", "UPDATE schedule_state SET active_job_id = (SELECT"),
    ("skip_locked", "SELECT id FROM runs WHERE id = ANY ($1);"),
    ("skip_locked", "SELECT id FROM runs WHERE id = ANY ($1) ORDER BY"),
    ("skips", "UPDATE skips AS k SET last_tick = $3"),
    ("skips", "UPDATE skips SET last_tick = $2"),
    ("skips", "SELECT id, last_tick, reason FROM skips WHERE schedule_id"),
    ("skips", "SELECT EXISTS (SELECT 1 FROM jobs WHERE schedule_id"),
    // The attempts of one job that ends, was found for its account, or is removed.
    ("commits", "INSERT INTO attempts (job_id,"),
    ("commits", "UPDATE attempts SET response"),
    ("attempts", "INSERT INTO attempts (job_id,"),
    ("cancel", "INSERT INTO jobs (id, account_id"),
    ("attempts", "UPDATE attempts SET response"),
    ("jobs", "SELECT number, started_at, completed_at"),
    ("history", "DELETE FROM {table} WHERE {is_removed} AND {column} BETWEEN"),
    // The version of a schedule that the same statement found for its account.
    ("create", "RETURNING id, shard, account_id, wake_at, (SELECT"),
    ("create", "WITH admitted AS MATERIALIZED ( SELECT suspended_at FROM accounts WHERE id = $3"),
    // The rows of a page, by ids that were found for the account.
    ("list", "SELECT , substr(a.response,"),
    ("list", "SELECT FROM {listed} {join} schedules AS s"),
    // The rows of schedules that are created: each gets the account of the call.
    ("schedules", "INSERT INTO schedules (id, shard"),
    ("schedules", "INSERT INTO schedule_state (shard, schedule_id, version_id"),
    ("schedules", "INSERT INTO schedule_state (shard, schedule_id, next_tick"),
    ("versions", "INSERT INTO schedule_versions (id, schedule_id"),
    // Authentication finds the account of a key, the memberships of a user, and invitations.
    ("accounts", "SELECT k.account_id, k.digest,"),
    ("statements", "SELECT m.account_id, a.name, m.role"),
    ("statements", "SELECT m.account_id FROM memberships"),
    ("statements", "DELETE FROM invitations WHERE digest = $1"),
    ("statements", "SELECT EXISTS (SELECT 1 FROM invitations WHERE digest"),
    ("statements", "SELECT digest FROM invitations WHERE expires_at"),
    // The keys that were used, with the accounts that authentication found.
    ("accounts", "SELECT id FROM api_keys WHERE id IN (SELECT r.id FROM {used})"),
    ("accounts", "UPDATE api_keys SET last_used_at"),
    // The audit entries of one call, all of its account.
    ("audit", "INSERT INTO audit_log (id, account_id, actor, action, object, origin) SELECT r.id"),
    // Accounts without a signing secret.
    ("signing", "SELECT id, created_at FROM accounts AS a WHERE NOT EXISTS"),
    // The counters of a batch of accounts, each row with its account.
    ("quotas", "SELECT e.id FROM {}"),
    ("quotas", "SELECT (SELECT count(*) FROM (SELECT"),
    ("quotas", "INSERT INTO account_months (account_id, month, reserved) SELECT r.account_id"),
    ("quotas", "DELETE FROM account_months WHERE {}"),
    ("quotas", "WITH held AS MATERIALIZED ( SELECT m.account_id, m.reserved"),
    // The jobs of a batch that have ended, each with its account.
    ("hours", "INSERT INTO account_hours AS h"),
    // The expiry of these rows does not depend on their account.
    ("prune", "DELETE FROM skips WHERE"),
    ("prune", "DELETE FROM schedule_versions WHERE"),
    ("hours", "DELETE FROM account_hours WHERE"),
    ("prune", "SELECT id FROM jobs WHERE id <"),
    ("prune", "SELECT EXISTS (SELECT FROM runs WHERE id BETWEEN"),
    ("old_rows", "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {condition}"),
    ("listing", "SELECT id FROM notification_deliveries WHERE id < $1 AND status > 2"),
    // The values of a parameter, which are in no table.
    ("connection", "SELECT value::{kind} FROM {elements}"),
    // The state of the shards, for all accounts.
    ("upkeep", "SELECT n.shard, s.replica, s.epoch"),
    ("upkeep", "SELECT count(*) FROM (SELECT"),
    // One key seals the secrets of all accounts. The account of a row is part of opening it.
    ("secrets", "SELECT id FROM {name} WHERE id > $2"),
    ("secrets", "SELECT id, account_id, {} FROM {name} WHERE id = $2"),
    ("secrets", "SELECT count(*) FROM {name} WHERE {is_stale}"),
    ("secrets", "SELECT id, account_id, {} FROM {name} WHERE id > $2"),
    ("secrets", "UPDATE {name} SET {} WHERE id = $1"),
    // Copying a whole store.
    ("copy", "SELECT s.id, st.next_tick"),
    ("copy", "SELECT count(*) FROM {}"),
    ("transfer", "SELECT {key}, {schedule}, json_object({columns}) FROM {from}"),
    ("transfer", "SELECT EXISTS (SELECT FROM accounts) OR EXISTS"),
    ("transfer", "WITH incoming AS MATERIALIZED (SELECT"),
    ("transfer", "DELETE FROM schedule_state AS st WHERE NOT EXISTS"),
    ("transfer", "SELECT setval(pg_get_serial_sequence('skips', 'id')"),
];
