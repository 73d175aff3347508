//! Checks that SQLite's planner does what the statements rely on: batches look up their rows by
//! key, lists use the index meant for them, and no frequent statement scans or sorts a table.

use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

use super::claims::late;
use super::commits::{ending, runs};
use super::firing::fire;
use super::history::prune;
use super::{claims, commits, firing, temporary};
use crate::domain::alert::delivery::DeliveryStatus;
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::schedule::HttpMethod;
use crate::domain::{AccountId, ChannelId, JobId, ScheduleId, Timestamp};
use crate::store::sql::accounts::jobs_made;
use crate::store::sql::connection::Dialect;
use crate::store::sql::jobs::{self, overlap, tickets};
use crate::store::sql::notifications::listing::{self, DeliveryStatements};
use crate::store::sql::notifications::{claiming, preferences, relaying, work};
use crate::store::sql::{audit, history, hours, idempotency, quotas, schedules, signing, upkeep};
use crate::store::{
    AuditQuery, DeliveryQuery, JobQuery, ScheduleQuery, ScheduleSort, SortField, SortValue,
};

/// A connection to an empty store with all migrations.
struct Planner {
    connection: SqliteConnection,
    _folder: tempfile::TempDir,
}

impl Planner {
    async fn new() -> Self {
        let (store, folder) = temporary::store().await;
        let connection = store.options.connect().await.expect("connect");
        store.close().await;
        Self { connection, _folder: folder }
    }

    async fn plan(&mut self, sql: &str) -> String {
        let rows = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
            .fetch_all(&mut self.connection)
            .await
            .expect("a statement that can be prepared");
        let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        steps.join("\n")
    }

    /// Asserts that the plan uses `index` and sorts nothing.
    async fn expect(&mut self, sql: &str, index: &str) {
        let plan = self.plan(sql).await;
        assert!(plan.contains(index), "{index}: {sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        assert!(!plan.contains("SCAN s") && !plan.contains("SCAN jobs"), "{sql}\n{plan}");
    }
}

/// Returns `true` if a step looks up unfinished jobs by their key.
fn of_runs(step: &str) -> bool {
    let names = ["runs", "r", "j"].map(|name| format!("SEARCH {name} USING PRIMARY KEY (id=?)"));
    names.iter().any(|name| step.contains(name.as_str()))
}

#[tokio::test]
async fn batches_look_rows_up_by_their_key() {
    let mut planner = Planner::new().await;
    for (sql, searches) in [
        (firing::CANDIDATES, 3),
        (fire::STORED, 3),
        (fire::ADVANCE, 1),
        (fire::INSERT, 0),
        (claims::CLAIMABLE, 2),
        (claims::CLAIMED, 2),
        (claims::CLAIM, 1),
        (ending::RUNNING, 2),
        (commits::END, 1),
        (commits::LEAVE, 1),
        (commits::RETRY, 1),
        (runs::COUNT_RUNS, 1),
        (&overlap::promote_held(Dialect::Sqlite), 1),
        (&tickets::read(Dialect::Sqlite), 2),
        (&schedules::list::rows(Dialect::Sqlite), 3),
    ] {
        let plan = planner.plan(sql).await;
        let scans: Vec<&str> = plan.lines().filter(|step| step.starts_with("SCAN")).collect();
        assert!(scans.iter().all(|scan| scan.contains("VIRTUAL TABLE")), "{sql}\n{plan}");
        let by_key = plan.lines().filter(|step| {
            step.starts_with("SEARCH")
                && (step.contains("_1 (id=?)")
                    || of_runs(step)
                    || step.contains("KEY (shard=? AND schedule_id=?)"))
        });
        assert_eq!(by_key.count(), searches, "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

/// The jobs of a batch are looked up by their key and grouped.
#[tokio::test]
async fn hours_are_counted_from_the_jobs_of_a_batch() {
    let mut planner = Planner::new().await;
    let plan = planner.plan(commits::COUNT_HOURS).await;
    assert!(plan.contains("SEARCH j USING") && plan.contains("_1 (id=?)"), "{plan}");
    assert!(!plan.contains("SCAN j") && !plan.contains("SCAN account_hours"), "{plan}");
    let plan = planner.plan(hours::HOURS).await;
    assert!(plan.contains("account_hours USING PRIMARY KEY (account_id=? AND slot>?)"), "{plan}");
}

/// The leases, which are few, are read and sorted. Jobs are looked up only for expired leases.
#[tokio::test]
async fn jobs_of_lost_executors_are_found_by_executor() {
    let mut planner = Planner::new().await;
    for sql in [claims::EXPIRED, claims::REMOVE_LEASES] {
        let plan = planner.plan(sql).await;
        assert!(plan.contains("SEARCH r USING") && plan.contains("(claimed_by=?)"), "{plan}");
        assert!(plan.matches("SCAN executors").count() <= 1, "{plan}");
        assert_eq!(plan.matches("SCAN ").count(), 1, "{plan}");
    }
    let plan = planner.plan(claims::CLAIMS_OF).await;
    assert!(plan.contains("SEARCH r USING INDEX runs_claimed (claimed_by=?)"), "{plan}");
    assert!(!plan.contains("SCAN "), "{plan}");
}

/// Only the jobs of one page are sorted.
#[tokio::test]
async fn the_jobs_of_a_page_are_looked_up_by_their_key() {
    let plan = Planner::new().await.plan(&jobs::list::rows(Dialect::Sqlite)).await;
    let scans: Vec<&str> = plan.lines().filter(|step| step.starts_with("SCAN")).collect();
    assert!(scans.iter().all(|scan| scan.contains("VIRTUAL TABLE")), "{plan}");
    let (of_runs, of_jobs) = (plan.lines().filter(|step| of_runs(step)), "_1 (id=?)");
    assert_eq!(of_runs.count(), 1, "{plan}");
    // The finished job, and the versions of the finished and of the unfinished one.
    assert_eq!(plan.matches(of_jobs).count(), 3, "{plan}");
    assert_eq!(plan.matches("PRIMARY KEY (job_id=? AND number=?)").count(), 1, "{plan}");
}

#[tokio::test]
async fn rescues_read_what_they_need_from_an_index() {
    let mut planner = Planner::new().await;
    for (sql, index) in [
        (firing::NEXT_TICKS, "(shard=? AND schedule_id>?)"),
        (
            &crate::store::sql::firing::count_unstarted(Dialect::Sqlite),
            "runs_unstarted (schedule_id=?)",
        ),
        (late::LATE_OF, "runs_waiting (account_id=? AND wake_at<?)"),
        (late::WAITING, "runs_waiting (account_id>?)"),
        (prune::PRUNE_VERSIONS, "jobs_schedule (schedule_id=? AND id<?)"),
        (prune::PRUNE_VERSIONS, "schedule_versions_retired (retired_at<?)"),
        (upkeep::SHORT_HISTORIES, "accounts_pruned (plan=? AND pruned_at<?)"),
        (prune::OLD_JOBS, "_1 (id<?)"),
        (&hours::prune_hours(Dialect::Sqlite), "account_hours_slot (slot<?)"),
        (&hours::prune_hours(Dialect::Sqlite), "PRIMARY KEY (account_id=? AND slot=?)"),
        (history::OLD_JOBS_OF, "jobs_account (account_id=? AND id<?)"),
        (&history::prune_account_skips(""), "skips_account (account_id=? AND first_tick<?)"),
        (&history::prune_account_log(""), "audit_log_account (account_id=? AND id<?)"),
    ] {
        planner.expect(sql, index).await;
    }
    for (rows, index) in [
        (upkeep::OLD_KEYS, "api_keys_over (<expr><?)"),
        (signing::OLD_SECRETS, "signing_secrets_over (expires_at<?)"),
        (audit::OLD_ENTRIES, "(id<?)"),
        (idempotency::OLD_KEYS, "idempotency_keys_age (reserved_at<?)"),
    ] {
        planner.expect(&rows.removal(Dialect::Sqlite), index).await;
    }
    let audit = |actor: bool, action: bool| AuditQuery {
        from: None,
        to: None,
        actor: actor.then(String::new),
        action: action.then_some(Action::JobRetried),
        after: None,
        limit: 9,
    };
    for (query, index) in [
        (audit(false, false), "audit_log_account (account_id=? AND id>? AND id<?)"),
        (audit(true, false), "audit_log_actor (account_id=? AND actor=? AND id>? AND id<?)"),
        (audit(false, true), "audit_log_action (account_id=? AND action=? AND id>? AND id<?)"),
        (audit(true, true), "=? AND id>? AND id<?)"),
    ] {
        planner.expect(&audit::list_text(&query), index).await;
    }
    // Only the accounts are sorted.
    let plan = planner.plan(&quotas::made(Dialect::Sqlite)).await;
    assert!(plan.contains("jobs_account (account_id=? AND id>? AND id<?)"), "{plan}");
    // Only jobs with the same start time are sorted.
    let plan = planner.plan(claims::LATE).await;
    assert!(plan.contains("runs_wake ((wake_at,id)>(?,?) AND wake_at<?)"), "{plan}");
    let sorted = plan.replace("USE TEMP B-TREE FOR LAST TERM OF ORDER BY", "");
    assert!(!sorted.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn alerts_are_found_by_an_index() {
    let mut planner = Planner::new().await;
    for (sql, index) in [
        (relaying::DUE_INCIDENTS, "notification_incidents_due (due_at<?)"),
        (&relaying::incidents_of(Dialect::Sqlite), "(channel_id=? AND host_key=?)"),
        (listing::OLD, "(id<?)"),
        (&preferences::count_uses(Dialect::Sqlite), "preference_channels_channel (channel_id=?)"),
        (&preferences::uses(Dialect::Sqlite), "preference_channels_channel (channel_id=?)"),
    ] {
        planner.expect(sql, index).await;
    }
    let plan = planner.plan(relaying::EVENTS).await;
    assert!(plan.contains("SCAN notification_events") && !plan.contains("TEMP B-TREE"), "{plan}");
    // Reads only the due deliveries of each status, and sorts only those.
    let plan = planner.plan(&claiming::due(Dialect::Sqlite, false)).await;
    let open = "notification_deliveries_open (status=? AND wake_at<?)";
    assert_eq!(plan.matches(open).count(), 2, "{plan}");
    assert!(!plan.contains("SCAN notification_deliveries"), "{plan}");
    // This statement runs four times a second.
    let plan = planner.plan(work::WORK).await;
    assert_eq!(plan.matches("notification_deliveries_open (status=?)").count(), 2, "{plan}");
    assert!(plan.contains("COVERING INDEX notification_deliveries_open (status<?)"), "{plan}");
    assert!(plan.contains("INDEX notification_incidents_due"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn lists_of_deliveries_read_in_order() {
    let mut planner = Planner::new().await;
    let at = Timestamp::from_millis(0);
    let (channel, schedule) = (Some(ChannelId::new(at, 1)), Some(ScheduleId::new(at, 1)));
    for (channel, schedule, status, index) in [
        (None, None, None, "notification_deliveries_account (account_id=? AND id<?)"),
        (
            None,
            None,
            Some(DeliveryStatus::Failed),
            "notification_deliveries_failed (account_id=? AND id<?)",
        ),
        (channel, None, None, "notification_deliveries_channel (channel_id=? AND id<?)"),
        (None, schedule, None, "notification_deliveries_schedule (schedule_id=? AND id<?)"),
    ] {
        let query = DeliveryQuery { channel, schedule, status, ..DeliveryQuery::default() };
        let (DeliveryStatements { count, list }, _) = DeliveryStatements::of(&query);
        planner.expect(&count, index).await;
        planner.expect(&list, index).await;
    }
}

#[tokio::test]
async fn lists_of_schedules_read_in_order() {
    let mut planner = Planner::new().await;
    let account = AccountId::new(Timestamp::from_millis(0), 1);
    let id = ScheduleId::new(Timestamp::from_millis(0), 1);
    let value = SortValue::Time(None);
    for (field, index) in
        [(SortField::CreatedAt, "schedules_created"), (SortField::Name, "schedules_name")]
    {
        for descending in [false, true] {
            for (contains, http_method, is_failing, after) in [
                (None, None, None, None),
                (None, None, None, Some((value.clone(), id))),
                (Some("x".to_owned()), Some(HttpMethod::Get), None, None),
                (None, None, Some(true), None),
            ] {
                let sort = ScheduleSort { field, descending };
                let query = ScheduleQuery {
                    contains,
                    is_enabled: Some(true),
                    http_method,
                    is_failing,
                    sort,
                    after,
                    offset: 0,
                    limit: 10,
                    max_bytes: 10,
                };
                let page = schedules::list::page(Dialect::Sqlite, account, &query);
                planner.expect(page.text(), index).await;
                let count = schedules::list::count(Dialect::Sqlite, account, &query);
                planner.expect(count.text(), "account_id=?").await;
            }
        }
    }
}

#[tokio::test]
async fn versions_of_a_schedule_read_in_order() {
    let mut planner = Planner::new().await;
    let list = schedules::versions::list(Dialect::Sqlite);
    let of_schedule = "schedule_versions_schedule (schedule_id=?";
    planner.expect(&list, of_schedule).await;
    planner.expect(&list, "SEARCH a USING INDEX audit_log_a").await;
    planner.expect(schedules::versions::COUNT, of_schedule).await;
}

/// Only the failing schedules, or the different recurrences, are sorted. The state of a schedule is
/// not in an index of the account, so the cost grows with the account's schedules.
#[tokio::test]
async fn failing_schedules_and_recurrences_are_found_by_the_account() {
    let mut planner = Planner::new().await;
    let query = ScheduleQuery {
        contains: None,
        is_enabled: None,
        http_method: None,
        is_failing: Some(true),
        sort: ScheduleSort { field: SortField::LastRun, descending: true },
        after: None,
        offset: 0,
        limit: 20,
        max_bytes: 10,
    };
    let account = AccountId::new(Timestamp::from_millis(0), 1);
    let page = schedules::list::page(Dialect::Sqlite, account, &query);
    let count = schedules::list::count(Dialect::Sqlite, account, &query);
    let of_state = "SEARCH st USING PRIMARY KEY (shard=? AND schedule_id=?)";
    let of_version = "SEARCH v USING INDEX sqlite_autoindex_schedule_versions_1 (id=?)";
    for (sql, joined) in [
        (page.text(), of_state),
        (count.text(), of_state),
        (&schedules::list::recurrences(Dialect::Sqlite), of_version),
    ] {
        let plan = planner.plan(sql).await;
        assert!(plan.contains("SEARCH s USING INDEX") && plan.contains("(account_id=?)"), "{plan}");
        assert!(plan.contains(joined) && !plan.contains("SCAN s"), "{plan}");
    }
}

/// Returns a query with all parameters that bound a list of jobs.
fn bounded(
    schedule: Option<ScheduleId>,
    status: Option<JobStatus>,
    trigger: Option<Trigger>,
) -> JobQuery {
    let (at, limit) = (Some(Timestamp::from_millis(0)), 10);
    let after = at.map(|at| JobId::new(at, 1));
    let query = JobQuery::newest(limit, 10);
    JobQuery { schedule, status, trigger, from: at, to: at, after, ..query }
}

#[tokio::test]
async fn lists_of_jobs_read_in_order() {
    let mut planner = Planner::new().await;
    let at = Timestamp::from_millis(0);
    let account = AccountId::new(at, 1);
    let schedule = Some(ScheduleId::new(at, 1));
    let (failed, manual) = (Some(JobStatus::Failed), Some(Trigger::Manual));
    let of_account = "jobs_account (account_id=? AND id>? AND id<?)";
    let of_failed = "jobs_failed (account_id=? AND id>? AND id<?)";
    let of_unscheduled = "jobs_unscheduled (account_id=? AND trigger=? AND id>?";
    let of_schedule = "jobs_schedule (schedule_id=? AND id>? AND id<?)";
    for (schedule, status, trigger, few, index) in [
        (None, None, None, false, of_account),
        (None, Some(JobStatus::Success), None, false, of_account),
        (None, failed, None, false, of_failed),
        (None, None, manual, false, of_unscheduled),
        (schedule, None, None, false, of_schedule),
        (schedule, failed, None, false, of_schedule),
        (schedule, failed, None, true, of_failed),
        (schedule, failed, manual, true, of_unscheduled),
        (schedule, None, manual, true, of_unscheduled),
        (schedule, Some(JobStatus::Success), None, true, of_schedule),
    ] {
        let query = bounded(schedule, status, trigger);
        let tables = jobs::list::tables(&query, few);
        let scope = jobs::list::JobListScope {
            dialect: Dialect::Sqlite,
            account,
            query: &query,
            tables: &tables,
        };
        let page = jobs::list::page(&scope);
        planner.expect(page.text(), index).await;
        let plan = planner.plan(page.text()).await;
        let unfinished = "runs_account (account_id=? AND id>? AND id<?)";
        assert_eq!(plan.contains(unfinished), status.is_none(), "{plan}");
    }
}

/// The jobs that decide how a list is read are counted in the index alone.
#[tokio::test]
async fn few_jobs_are_counted_in_their_index() {
    let mut planner = Planner::new().await;
    let at = Timestamp::from_millis(0);
    let (account, schedule) = (AccountId::new(at, 1), Some(ScheduleId::new(at, 1)));
    let (failed, manual) = (Some(JobStatus::Failed), Some(Trigger::Manual));
    for (status, trigger, index) in [
        (failed, None, "COVERING INDEX jobs_failed (account_id=?"),
        (None, manual, "COVERING INDEX jobs_unscheduled (account_id=? AND trigger=?"),
        (failed, manual, "COVERING INDEX jobs_unscheduled (account_id=? AND trigger=?"),
    ] {
        let query = bounded(schedule, status, trigger);
        let count = jobs::list::count_partial(Dialect::Sqlite, account, &query);
        planner.expect(count.expect("it decides").text(), index).await;
    }
    for (schedule, trigger) in [(schedule, Some(Trigger::Schedule)), (None, manual)] {
        let query = bounded(schedule, None, trigger);
        assert!(jobs::list::count_partial(Dialect::Sqlite, account, &query).is_none());
    }
    let plan = planner.plan(jobs_made::ENDED_BEFORE).await;
    assert!(plan.contains("jobs_account (account_id=? AND id>? AND id<?)"), "{plan}");
}
