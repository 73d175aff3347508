//! `punctual cluster`: shows the live replicas, the leader of each shard, and how late it is.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::config::load_part_and_warn;
use super::settings::{ServersOnly, SettingArgs};
use super::{CliError, output};
use crate::app::{Away, Overview, overview};
use crate::cluster::Member;
use crate::domain::Timestamp;
use crate::runtime::Clock;
use crate::store::ShardRecord;

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
    let report = Report::new(Box::pin(overview(&config, &Clock::system())).await);
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(CliError::failed)?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&report.text())?;
    }
    let away = report.servers.iter().filter(|server| server.error.is_some());
    let away: Vec<_> = away.map(|server| server.setting).collect();
    if away.is_empty() {
        return Ok(());
    }
    Err(CliError::failed(format!("not all servers answer: look at {}", away.join(", "))))
}

/// The report that is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    servers: Vec<Server>,
    /// The id of the installation whose store the members share.
    #[serde(skip_serializing_if = "Option::is_none")]
    installation: Option<String>,
    members: Vec<Replica>,
    shards: Vec<Shard>,
}

/// A server that the installation depends on.
#[derive(Serialize)]
struct Server {
    /// The setting that contains its address.
    setting: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Replica {
    name: String,
    version: String,
    /// `true` if the replica takes part in leading shards.
    leads: bool,
    /// `true` if the replica executes jobs.
    executes: bool,
    shards: Vec<u16>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shard {
    shard: u16,
    /// The replica that holds the shard according to the cluster. If no replica does, or the
    /// cluster cannot be reached, this is the last leader according to the store.
    leader: Option<String>,
    /// `true` if, according to the cluster, the leader is alive and holds the shard.
    held: bool,
    epoch: Option<i64>,
    led_since: Option<String>,
    /// The lateness of the oldest due tick that has not fired, in milliseconds.
    tick_lag_ms: u64,
    /// The time that the oldest startable job has waited, in milliseconds.
    job_lag_ms: u64,
}

fn server<T>(setting: &'static str, told: &Result<T, Away>) -> Server {
    let error = told.as_ref().err().cloned();
    Server { setting, status: if error.is_some() { "away" } else { "ok" }, error }
}

impl Report {
    fn new(overview: Overview) -> Self {
        let Overview { now, store, queue, cluster } = overview;
        let mut servers = vec![server("store.url", &store)];
        servers.extend(queue.iter().map(|told| server("queue.url", told)));
        servers.extend(cluster.iter().map(|told| server("cluster.url", told)));
        let seen = cluster.and_then(Result::ok);
        let installation = seen.as_ref().and_then(|seen| seen.installation.clone());
        let members = seen.map_or_else(Vec::new, |seen| seen.members);
        let records = store.unwrap_or_default();
        let shards = shards(now, &records, &members);
        let members = members.into_iter().map(replica).collect();
        Self { servers, installation, members, shards }
    }

    fn text(&self) -> String {
        let row = |server: &Server| {
            let error = server.error.clone().unwrap_or_default();
            [server.setting.to_owned(), server.status.to_owned(), error]
        };
        let servers: Vec<_> = self.servers.iter().map(row).collect();
        let mut text = output::table(["SERVER", "STATUS", ""], &servers);
        if self.servers.len() > 1 {
            let row = |one: &Replica| {
                let said = |does: bool| if does { "yes" } else { "no" }.to_owned();
                let (leads, executes) = (said(one.leads), said(one.executes));
                let shards = one.shards.len().to_string();
                [one.name.clone(), one.version.clone(), leads, executes, shards]
            };
            let members: Vec<_> = self.members.iter().map(row).collect();
            text.push('\n');
            text.push_str(&output::table(
                ["MEMBER", "VERSION", "LEADS", "EXECUTES", "SHARDS"],
                &members,
            ));
        }
        let row = |one: &Shard| {
            let leader = match (&one.leader, one.held) {
                (Some(leader), true) => leader.clone(),
                (Some(leader), false) => format!("({leader})"),
                (None, _) => "-".to_owned(),
            };
            let epoch = one.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string());
            let since = one.led_since.clone().unwrap_or_else(|| "-".to_owned());
            let lags = (seconds(one.tick_lag_ms), seconds(one.job_lag_ms));
            [one.shard.to_string(), leader, epoch, since, lags.0, lags.1]
        };
        let shards: Vec<_> = self.shards.iter().map(row).collect();
        let head = ["SHARD", "LEADER", "EPOCH", "SINCE", "TICK LAG", "JOB LAG"];
        text.push('\n');
        text.push_str(&output::table(head, &shards));
        text
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

fn replica(member: Member) -> Replica {
    let Member { name, version, leads, executes, shards } = member;
    let shards = shards.into_iter().map(|shard| shard.0).collect();
    Replica { name, version, leads, executes, shards }
}

/// Returns all shards that the store or the members know.
fn shards(now: Timestamp, records: &[ShardRecord], members: &[Member]) -> Vec<Shard> {
    let mut all = BTreeMap::new();
    let ms = |since: Option<Timestamp>| {
        since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
    };
    for record in records {
        let led = record.led.as_ref();
        let shard = Shard {
            shard: record.shard.0,
            leader: led.map(|led| led.replica.clone()),
            held: false,
            epoch: led.map(|led| led.epoch.0),
            led_since: led.map(|led| led.at.to_string()),
            tick_lag_ms: ms(record.due_since),
            job_lag_ms: ms(record.waiting_since),
        };
        all.insert(record.shard.0, shard);
    }
    let held = members.iter().flat_map(|member| member.shards.iter().map(move |id| (member, id)));
    for (member, id) in held {
        let shard = all.entry(id.0).or_insert_with(|| Shard {
            shard: id.0,
            leader: None,
            held: true,
            epoch: None,
            led_since: None,
            tick_lag_ms: 0,
            job_lag_ms: 0,
        });
        (shard.leader, shard.held) = (Some(member.name.clone()), true);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::etcd::Seen;
    use crate::domain::shard::{Epoch, ShardId};
    use crate::store::LedBy;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn record(shard: u16, replica: &str) -> ShardRecord {
        let led = LedBy { replica: replica.to_owned(), epoch: Epoch(7), at: at(1_000) };
        let shard = ShardId(shard);
        ShardRecord { shard, led: Some(led), due_since: Some(at(8_500)), waiting_since: None }
    }

    fn member(name: &str, shards: &[u16]) -> Member {
        Member {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            leads: true,
            executes: false,
            shards: shards.iter().copied().map(ShardId).collect(),
        }
    }

    #[test]
    fn leaders_are_those_of_the_cluster() {
        let seen = Seen { installation: Some("ab".to_owned()), members: vec![member("b", &[1])] };
        let report = Report::new(Overview {
            now: at(10_000),
            store: Ok(vec![record(0, "a"), record(1, "a")]),
            queue: Some(Err("it is away".to_owned())),
            cluster: Some(Ok(seen)),
        });
        let text = report.text();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
        let row = |first: &str| {
            let row = rows.iter().find(|row| row[0] == first).unwrap_or_else(|| panic!("{text}"));
            row.iter().filter(|cell| !cell.is_empty()).copied().collect::<Vec<_>>()
        };
        assert_eq!(row("queue.url"), ["queue.url", "away", "it is away"]);
        assert_eq!(row("b"), ["b", "1.0.0", "yes", "no", "1"]);
        let since = "1970-01-01T00:00:01.000Z";
        assert_eq!(row("0"), ["0", "(a)", "7", since, "1.500 s", "0.000 s"]);
        assert_eq!(row("1"), ["1", "b", "7", since, "1.500 s", "0.000 s"]);
    }

    #[test]
    fn what_is_away_is_left_out() {
        let report = Report::new(Overview {
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
