//! The end of a run: all faults end, all work finishes, and the final state is read.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use punctual::domain::{EventId, JobId};
use sqlx::Connection;
use sqlx::types::Uuid;

use super::history::{Alert, History, Hit, ResourceUsage};
use super::lapse::machine;
use super::oracles::{Violation, formatted, judge};
use super::replica::Replica;
use super::world::World;
use super::{audit, oracles, read};
use crate::harness::client::ApiClient;
use crate::harness::provider::Received;
use crate::harness::recorder;
use crate::harness::states::undelivered;
use crate::harness::wait::live_for;

/// The timeout for all work to finish.
const TO_THE_END: Duration = Duration::from_secs(40);

/// The maximum number of open files at the end, in addition to those after the first tick: its
/// other connections to the store (18), to Redis and to targets, and those of up to 100 concurrent
/// users, which close after an idle time.
const MORE_FILES: u64 = 48 + 100;
/// The memory that a replica may use in addition to 150 % of the initial usage. Its allocator keeps
/// it.
const MORE_BYTES: u64 = 32 << 20;

/// The timeout for a moment without calls of the store, and for idle connections to close.
const TO_A_QUIET_MOMENT: Duration = Duration::from_secs(20);

/// The resource usage of a replica process.
pub struct ProcessUsage {
    life: String,
    index: usize,
    files: u64,
    bytes: u64,
}

impl ProcessUsage {
    /// Returns the usage of the running replicas.
    pub fn of(replicas: &[Replica]) -> Vec<Self> {
        let running = replicas.iter().filter(|replica| replica.server.is_some());
        let used = running.map(|replica| {
            let process = format!("/proc/{}", replica.process().pid());
            let files = fs::read_dir(format!("{process}/fd")).map_or(0, Iterator::count);
            let statm = fs::read_to_string(format!("{process}/statm")).unwrap_or_default();
            let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
            let bytes = pages.unwrap_or(0_u64) * 4_096;
            Self { life: replica.process_name(), index: replica.index, files: files as u64, bytes }
        });
        used.collect()
    }

    /// Returns the maximum number of open files at the end.
    const fn most_files(&self) -> u64 {
        self.files + MORE_FILES
    }
}

impl Replica {
    /// Waits until each pool has had a moment without store calls, and returns the sum of the
    /// smallest numbers that were seen. In time lapse, the loops of a replica make nearly one call
    /// after the other, so all pools are rarely idle at once. A call that never ends stays in its
    /// pool.
    async fn calls_of_the_store(&self) -> u64 {
        let begun = Instant::now();
        let mut fewest = self.process().gauges("punctual_store_calls").await;
        while fewest.iter().any(|calls| *calls > 0) && begun.elapsed() < TO_A_QUIET_MOMENT {
            live_for(Duration::from_millis(10)).await;
            let now = self.process().gauges("punctual_store_calls").await;
            assert_eq!(now.len(), fewest.len(), "the same pools");
            fewest = fewest.into_iter().zip(now).map(|(before, now)| before.min(now)).collect();
        }
        fewest.into_iter().sum()
    }
}

impl World {
    /// Ends all faults, waits until all work is finished, and reads the final state.
    pub async fn settle(&mut self) -> History {
        self.users.stop_users();
        for index in 0..self.replicas.len() {
            self.replicas[index].links.open();
            self.replicas[index].clear_fault_points();
            if self.replicas[index].server.is_some() {
                self.replicas[index].resume();
            } else {
                self.launch(index);
            }
        }
        self.target.release();
        for replica in &mut self.replicas {
            replica.ready().await;
        }
        while let Some(user) = self.living.join_next().await {
            user.expect("no panic");
        }
        let begun = Instant::now();
        let cut = self.lapse.now();
        while !self.is_over(cut).await && begun.elapsed() < TO_THE_END {
            live_for(Duration::from_millis(100)).await;
        }
        println!("everything is over after {:?}", begun.elapsed());
        self.read(cut).await
    }

    /// Returns `true` if no work is left up to this tick.
    async fn is_over(&self, cut: i64) -> bool {
        let mut store = self.stores.store.second_connection().await;
        let left: i64 = sqlx::query_scalar(concat!(
            "SELECT (SELECT count(*) FROM schedule_state WHERE next_tick <= $1)
                  + (SELECT count(*) FROM runs
                     WHERE ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint <= $1)
                  + (SELECT count(*) FROM notification_events
                     WHERE ('x' || left(replace(job_id::text, '-', ''), 12))::bit(48)::bigint <= $1)
                  + (SELECT count(*) FROM notification_deliveries WHERE ",
            undelivered!(),
            " AND ('x' || left(replace(job_id::text, '-', ''), 12))::bit(48)::bigint <= $1)"
        ))
        .bind(cut)
        .fetch_one(&mut store)
        .await
        .expect("counted");
        store.close().await.expect("closed");
        left == 0
    }

    async fn read(&mut self, cut: i64) -> History {
        let recording = self.users.take_recording();
        let address = self.users.address().expect("a replica");
        let (mut jobs, mut schedules, mut skips) = (Vec::new(), Vec::new(), Vec::new());
        let mut read_at = 0;
        for (account, key) in self.users.keys.iter().enumerate() {
            let api = ApiClient::new(address, key);
            jobs.extend(read::jobs(&api, account, cut).await);
            if read_at == 0 {
                // This is the earliest time. Everything read later is newer.
                read_at = self.lapse.now();
            }
            let own = read::schedules(&api, account).await;
            for schedule in own.iter().filter(|schedule| schedule.next.is_some()) {
                skips.extend(read::skips(&api, &schedule.id).await);
            }
            schedules.extend(own);
        }
        let hits = self.target.hits().into_iter().map(hit);
        let is_later =
            |job: &str| job.parse::<JobId>().is_ok_and(|job| job.timestamp().as_millis() > cut);
        History {
            lapse: self.lapse,
            calls: recording.calls,
            hits: hits.filter(|hit| !is_later(&hit.job)).collect(),
            seen: recording.seen.into_iter().filter(|job| job.tick <= cut).collect(),
            jobs,
            skips,
            schedules,
            writes: audit::read(self.stores.store.second_connection().await).await,
            faults: self.faults.clone(),
            resource_usage: self.resource_usage().await,
            probes: recording.probes,
            alerting: self.alerting.clone(),
            alerting_since: self.alerting_since,
            alerts: self.alerts().await,
            received: self.alert_target.alerts().iter().map(Received::event).collect(),
            cut,
            read: read_at,
            latest_ms: self.latest_ms,
            held_up: self.held_up.clone(),
            calm: self.calm,
            prompt: self.prompt,
            rescued: self.rescued().await,
        }
    }

    async fn rescued(&self) -> u64 {
        let counters =
            self.replicas.iter().map(|one| one.process().counter("punctual_sweep_tickets_total"));
        join_all(counters).await.into_iter().sum()
    }

    /// Reads the alerts about the ends of jobs.
    async fn alerts(&self) -> Vec<Alert> {
        type Row = (Uuid, Uuid, String, i16, bool);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT d.job_id, d.event_id, d.type, d.status, m.id IS NOT NULL
             FROM notification_deliveries AS d
             LEFT JOIN notification_deliveries AS m ON m.id = d.merged_into
             WHERE d.type IN ('job.failed', 'job.succeeded')",
        )
        .fetch_all(&mut self.stores.store.second_connection().await)
        .await
        .expect("read");
        let read = |(job, event, kind, status, is_merged): Row| Alert {
            job: JobId::from_bytes(job.into_bytes()).to_string(),
            event: EventId::from_bytes(event.into_bytes()).to_string(),
            kind,
            status,
            is_merged,
        };
        rows.into_iter().map(read).collect()
    }

    /// Returns the usage of the replicas as soon as idle connections have closed, or after a
    /// timeout.
    async fn idle_usage(&self) -> Vec<ProcessUsage> {
        let begun = Instant::now();
        loop {
            let now = ProcessUsage::of(&self.replicas);
            let is_within = self.usage.iter().all(|before| {
                let after = now.iter().find(|now| now.life == before.life);
                after.is_none_or(|after| after.files <= before.most_files())
            });
            if is_within || begun.elapsed() > TO_A_QUIET_MOMENT {
                return now;
            }
            live_for(Duration::from_millis(100)).await;
        }
    }

    /// Returns the usage of the replicas that lived through the run, and the store calls and
    /// transactions that are still open.
    async fn resource_usage(&self) -> Vec<ResourceUsage> {
        let now = self.idle_usage().await;
        let mut usages = Vec::new();
        for before in &self.usage {
            let Some(after) = now.iter().find(|now| now.life == before.life) else { continue };
            let index = before.index;
            usages.push(ResourceUsage {
                what: format!("files of replica {index}"),
                before: before.files,
                after: after.files,
                most: before.most_files(),
            });
            usages.push(ResourceUsage {
                what: format!("bytes of replica {index}"),
                before: before.bytes,
                after: after.bytes,
                most: before.bytes + before.bytes / 2 + MORE_BYTES,
            });
        }
        for replica in &self.replicas {
            let calls = replica.calls_of_the_store().await;
            let what = format!("calls of the store of replica {}", replica.index);
            usages.push(ResourceUsage { what, before: 0, after: calls, most: 0 });
        }
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND state LIKE 'idle in transaction%' AND state_change < now() - interval '3 s'",
        )
        .fetch_one(&mut self.stores.store.second_connection().await)
        .await
        .expect("counted");
        let after = open.unsigned_abs();
        usages.push(ResourceUsage {
            what: "open transactions".to_owned(),
            before: 0,
            after,
            most: 0,
        });
        usages
    }

    /// Settles and returns the violations.
    pub async fn violations(&mut self) -> Vec<Violation> {
        let history = self.settle().await;
        report(&history);
        judge(&history)
    }

    /// Settles and asserts that there are no violations.
    pub async fn holds(&mut self) -> History {
        let history = self.settle().await;
        report(&history);
        self.show_warnings();
        let violations = judge(&history);
        assert!(violations.is_empty(), "{}", formatted(&violations));
        assert_eq!(self.miscounted().await, 0, "each finished job is counted in one hour");
        history
    }

    /// Returns the number of finished jobs minus the number of those that hours count, at one
    /// instant.
    async fn miscounted(&self) -> i64 {
        let mut store = self.stores.store.second_connection().await;
        let apart = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM jobs) -
                    (SELECT coalesce(sum(succeeded + failed + cancelled), 0) FROM account_hours)",
        );
        let apart = apart.fetch_one(&mut store).await.expect("counted");
        store.close().await.expect("closed");
        apart
    }

    /// Prints the warnings of the last process of each replica, with their counts.
    fn show_warnings(&self) {
        let mut warnings: BTreeMap<String, usize> = BTreeMap::new();
        for replica in self.replicas.iter().filter(|replica| replica.server.is_some()) {
            for line in replica.process().log().iter().filter(|line| {
                // A warning about the variables of the tests, which are not settings, is expected.
                let of_tests = line["message"].as_str().is_some_and(|said| said.contains("_TEST_"));
                line["level"] != "INFO" && !of_tests
            }) {
                let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                let (what, error) = (text("message"), text("error"));
                *warnings
                    .entry(format!("{} {what} {error}", replica.process_name()))
                    .or_default() += 1;
            }
        }
        for (warning, times) in warnings {
            println!("warned {times} times: {warning}");
        }
    }
}

fn hit(hit: recorder::Hit) -> Hit {
    Hit {
        job: hit.job,
        attempt: hit.attempt,
        path: hit.path,
        body: String::from_utf8_lossy(&hit.body).into_owned(),
        at: hit.wall_ms,
        answered: hit.answered,
    }
}

fn report(history: &History) {
    let (late, lags) = (oracles::lateness(history), oracles::lags(history));
    let part = |sorted: &[i64], part: usize| sorted.get(sorted.len() * part / 100).copied();
    let refused =
        history.calls.iter().filter(|call| !matches!(call.answer, super::history::Answer::Done(_)));
    println!(
        "{} calls, {} of them not done; {} jobs, {} hits, {} skips; fired late by {:?}, {:?}, {:?} ms \
         (half, 99 %, all); started after {:?}, {:?} ms; {} tickets pushed again; at {}",
        history.calls.len(),
        refused.count(),
        history.jobs.len(),
        history.hits.len(),
        history.skips.len(),
        part(&late, 50),
        part(&late, 99),
        late.last(),
        part(&lags, 50),
        part(&lags, 99),
        history.rescued,
        machine(),
    );
    for used in &history.resource_usage {
        println!(
            "{}: {} before, {} after, at most {}",
            used.what, used.before, used.after, used.most
        );
    }
}
