//! `punctual cluster`: shows the live replicas and their modes, the leader of each shard, and how
//! late it is.

use clap::Args;

use super::config::load_part_and_warn;
use super::settings::{ServersOnly, SettingArgs};
use super::{CliError, output};
use crate::app::overview;
use crate::inspection::{
    InstallationReport, ReplicaStatus, ServerStatus, ShardStatus, WaitingWork,
};
use crate::runtime::Clock;

/// The line that explains a leader in brackets.
const LEGEND: &str = "(NAME): the last leader according to the store, not confirmed by etcd\n";

/// The options of `punctual cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs<ServersOnly>,
}

pub(super) async fn run(args: &ClusterArgs) -> Result<(), CliError> {
    let config = load_part_and_warn(&args.settings.sources())?;
    let report = InstallationReport::new(Box::pin(overview(&config, &Clock::system())).await);
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(CliError::failed)?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&text(&report))?;
    }
    let away = report.servers.iter().filter(|server| server.error.is_some());
    let away: Vec<_> = away.map(|server| server.setting).collect();
    if away.is_empty() {
        return Ok(());
    }
    Err(CliError::failed(format!("not all servers answer: check {}", away.join(", "))))
}

/// Returns the report as tables.
fn text(report: &InstallationReport) -> String {
    let row = |server: &ServerStatus| {
        let status = if server.error.is_some() { "unreachable" } else { server.status };
        let error = server.error.clone().unwrap_or_default();
        [server.setting.to_owned(), status.to_owned(), error]
    };
    let servers: Vec<_> = report.servers.iter().map(row).collect();
    let mut text = output::table(["SERVER", "STATUS", ""], &servers);
    if report.servers.len() > 1 {
        let row = |one: &ReplicaStatus| {
            let said = |does: Option<bool>| {
                does.map_or("-", |does| if does { "yes" } else { "no" }).to_owned()
            };
            let version = one.version.clone().unwrap_or_else(|| "-".to_owned());
            let (leads, executes) = (said(one.leads), said(one.executes));
            let shards = one.shards.len().to_string();
            [one.name.clone(), version, leads, executes, shards, one.mode().to_owned()]
        };
        let members: Vec<_> = report.members.iter().map(row).collect();
        text.push('\n');
        text.push_str(&output::table(
            ["MEMBER", "VERSION", "LEADS", "EXECUTES", "SHARDS", "MODE"],
            &members,
        ));
    }
    let row = |one: &ShardStatus| {
        let leader = match (&one.leader, one.held) {
            (Some(leader), true) => leader.clone(),
            (Some(leader), false) => format!("({leader})"),
            (None, _) => "-".to_owned(),
        };
        let epoch = one.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string());
        let since = one.led_since.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let lags = (seconds(one.tick_lag_ms), seconds(one.job_lag_ms));
        [one.shard.to_string(), leader, epoch, since, lags.0, lags.1]
    };
    let shards: Vec<_> = report.shards.iter().map(row).collect();
    let head = ["SHARD", "LEADER", "EPOCH", "SINCE", "TICK LAG", "JOB LAG"];
    text.push('\n');
    text.push_str(&output::table(head, &shards));
    if report.shards.iter().any(|one| one.leader.is_some() && !one.held) {
        text.push_str(LEGEND);
    }
    if let Some(WaitingWork { jobs, oldest_job_ms, alerts, oldest_alert_ms }) = &report.waiting {
        let row = |of: &str, count: u64, ms| [of.to_owned(), count.to_string(), seconds(ms)];
        let rows = [row("jobs", *jobs, *oldest_job_ms), row("alerts", *alerts, *oldest_alert_ms)];
        text.push('\n');
        text.push_str(&output::table(["WAITING", "NUMBER", "OLDEST"], &rows));
    }
    text
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{ClusterState, LiveReplica};
    use crate::domain::Timestamp;
    use crate::domain::shard::{Epoch, ShardId};
    use crate::inspection::{AwayReason, ServersOverview, StoreState};
    use crate::store::{CurrentLeader, ReplicaLease, ShardRecord, WaitingJobs};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn record(shard: u16, replica: &str) -> ShardRecord {
        let leader = CurrentLeader { replica: replica.to_owned(), epoch: Epoch(7), at: at(1_000) };
        let shard = ShardId(shard);
        ShardRecord { shard, leader: Some(leader), due_since: Some(at(8_500)), waiting_since: None }
    }

    fn member(name: &str, shards: &[u16]) -> LiveReplica {
        LiveReplica {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            leads: true,
            executes: false,
            shards: shards.iter().copied().map(ShardId).collect(),
        }
    }

    fn lease(name: &str, without_cluster: bool, without_queue: bool) -> ReplicaLease {
        let (name, until) = (name.to_owned(), at(20_000));
        ReplicaLease { name, is_cut_off: false, without_cluster, without_queue, until }
    }

    fn report(
        cluster: Result<Vec<LiveReplica>, AwayReason>,
        alive: Vec<ReplicaLease>,
    ) -> InstallationReport {
        InstallationReport::new(ServersOverview {
            now: at(10_000),
            store: Ok(StoreState {
                shards: vec![record(0, "a"), record(1, "a")],
                alive,
                jobs: WaitingJobs { jobs: 3, since: Some(at(9_000)) },
                ..StoreState::default()
            }),
            queue: Some(Err("refused".to_owned())),
            cluster: Some(cluster.map(|members| ClusterState { installation: None, members })),
        })
    }

    /// Returns the cells of the row that begins with `first`; none if there is no such row.
    fn row<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.split(' ').next() == Some(first));
        let cells = line.unwrap_or_default().split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn leaders_are_those_of_the_cluster() {
        let shown = text(&report(Ok(vec![member("b", &[1])]), Vec::new()));
        let row = |first| row(&shown, first);
        assert_eq!(row("queue.url"), ["queue.url", "unreachable", "refused"]);
        assert_eq!(row("b"), ["b", "1.0.0", "yes", "no", "1", "-"]);
        let since = "1970-01-01T00:00:01.000Z";
        assert_eq!(row("0"), ["0", "(a)", "7", since, "1.500 s", "0.000 s"]);
        assert!(shown.contains(LEGEND), "{shown}");
        assert_eq!(row("1"), ["1", "b", "7", since, "1.500 s", "0.000 s"]);
        assert_eq!(row("jobs"), ["jobs", "3", "1.000 s"]);
    }

    #[test]
    fn modes_are_those_that_replicas_have_written() {
        let older = ReplicaLease { is_cut_off: true, ..lease("older", false, false) };
        let alive = vec![lease("b", false, true), lease("c", false, false), older];
        let shown = text(&report(Ok(vec![member("b", &[1]), member("c", &[])]), alive));
        assert_eq!(row(&shown, "b"), ["b", "1.0.0", "yes", "no", "1", "without Redis"]);
        assert_eq!(row(&shown, "c"), ["c", "1.0.0", "yes", "no", "0", "normal"]);
        assert_eq!(row(&shown, "older"), ["older", "-", "-", "-", "0", "without etcd"]);

        let died = text(&report(Ok(vec![member("b", &[])]), vec![lease("a", false, false)]));
        assert!(row(&died, "a").is_empty(), "{died}");
    }

    #[test]
    fn without_the_cluster_replicas_are_those_of_the_store() {
        let report = report(Err("refused".to_owned()), vec![lease("a", true, true)]);
        let shown = text(&report);
        assert_eq!(row(&shown, "a"), ["a", "-", "-", "-", "2", "without etcd and Redis"]);
        let json = serde_json::to_value(&report.members).expect("JSON");
        let replica = serde_json::json!({
            "name": "a", "version": null, "leads": null, "executes": null, "shards": [0, 1],
            "withoutServers": ["cluster", "queue"],
        });
        assert_eq!(json, serde_json::json!([replica]));
    }

    #[test]
    fn unreachable_servers_are_left_out() {
        let report = InstallationReport::new(ServersOverview {
            now: at(10_000),
            store: Err("refused".to_owned()),
            queue: None,
            cluster: None,
        });
        let json = serde_json::to_value(&report).expect("JSON");
        let server =
            serde_json::json!({ "setting": "store.url", "status": "away", "error": "refused" });
        assert_eq!(json, serde_json::json!({ "servers": [server], "members": [], "shards": [] }));
    }
}
