//! `punctual cluster`: shows the live replicas and their modes, the leader of each shard, and how
//! late it is.

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
use crate::store::{ReplicaLease, ShardRecord};

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

/// A live replica. Its version and roles are absent if the cluster does not list it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replica {
    name: String,
    version: Option<String>,
    /// `true` if the replica takes part in leading shards.
    leads: Option<bool>,
    /// `true` if the replica executes jobs.
    executes: Option<bool>,
    /// The shards that it leads; according to the store if the cluster does not list the replica.
    shards: Vec<u16>,
    /// The servers that the replica works without, with their names in `/readyz`. Absent if the
    /// store has no lease of the replica.
    without_servers: Option<Vec<&'static str>>,
}

impl Replica {
    fn mode(&self) -> &'static str {
        match self.without_servers.as_deref() {
            None => "-",
            Some([]) => "normal",
            Some(["cluster"]) => "without etcd",
            Some(["queue"]) => "without Redis",
            Some(_) => "without etcd and Redis",
        }
    }
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
        let members = seen.map(|seen| seen.members);
        let state = store.unwrap_or_default();
        let shards = shards(now, &state.shards, members.as_deref().unwrap_or_default());
        let members = replicas(members, state.alive, &shards);
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
                let said = |does: Option<bool>| {
                    does.map_or("-", |does| if does { "yes" } else { "no" }).to_owned()
                };
                let version = one.version.clone().unwrap_or_else(|| "-".to_owned());
                let (leads, executes) = (said(one.leads), said(one.executes));
                let shards = one.shards.len().to_string();
                [one.name.clone(), version, leads, executes, shards, one.mode().to_owned()]
            };
            let members: Vec<_> = self.members.iter().map(row).collect();
            text.push('\n');
            text.push_str(&output::table(
                ["MEMBER", "VERSION", "LEADS", "EXECUTES", "SHARDS", "MODE"],
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
    Replica {
        name,
        version: Some(version),
        leads: Some(leads),
        executes: Some(executes),
        shards: shards.into_iter().map(|shard| shard.0).collect(),
        without_servers: None,
    }
}

/// Returns the members of the cluster, and the replicas that live without it. `members` is absent if
/// the cluster did not answer.
fn replicas(
    members: Option<Vec<Member>>,
    leases: Vec<ReplicaLease>,
    shards: &[Shard],
) -> Vec<Replica> {
    let is_answered = members.is_some();
    let members = members.into_iter().flatten().map(replica);
    let mut all: BTreeMap<_, _> = members.map(|one| (one.name.clone(), one)).collect();
    for lease in leases {
        let ReplicaLease { name, is_cut_off, without_cluster, without_queue, .. } = lease;
        // Replicas of releases before migration 15 write `cut_off` alone.
        let without_cluster = without_cluster || is_cut_off;
        // Otherwise the replica has just died: etcd would list it.
        if is_answered && !without_cluster && !all.contains_key(&name) {
            continue;
        }
        let unlisted = || {
            let led = shards.iter().filter(|shard| shard.leader.as_ref() == Some(&name));
            let shards = led.map(|shard| shard.shard).collect();
            Replica { name: name.clone(), shards, ..Replica::default() }
        };
        let servers = [("cluster", without_cluster), ("queue", without_queue)];
        let without = servers.into_iter().filter_map(|(server, is_away)| is_away.then_some(server));
        let replica = all.entry(name.clone()).or_insert_with(unlisted);
        replica.without_servers = Some(without.collect());
    }
    all.into_values().collect()
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
    use crate::app::StoreState;
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

    fn lease(name: &str, without_cluster: bool, without_queue: bool) -> ReplicaLease {
        let (name, until) = (name.to_owned(), at(20_000));
        ReplicaLease { name, is_cut_off: false, without_cluster, without_queue, until }
    }

    fn report(cluster: Result<Vec<Member>, Away>, alive: Vec<ReplicaLease>) -> Report {
        Report::new(Overview {
            now: at(10_000),
            store: Ok(StoreState { shards: vec![record(0, "a"), record(1, "a")], alive }),
            queue: Some(Err("it is away".to_owned())),
            cluster: Some(cluster.map(|members| Seen { installation: None, members })),
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
        let text = report(Ok(vec![member("b", &[1])]), Vec::new()).text();
        let row = |first| row(&text, first);
        assert_eq!(row("queue.url"), ["queue.url", "away", "it is away"]);
        assert_eq!(row("b"), ["b", "1.0.0", "yes", "no", "1", "-"]);
        let since = "1970-01-01T00:00:01.000Z";
        assert_eq!(row("0"), ["0", "(a)", "7", since, "1.500 s", "0.000 s"]);
        assert_eq!(row("1"), ["1", "b", "7", since, "1.500 s", "0.000 s"]);
    }

    #[test]
    fn modes_are_those_that_replicas_have_written() {
        let older = ReplicaLease { is_cut_off: true, ..lease("older", false, false) };
        let alive = vec![lease("b", false, true), lease("c", false, false), older];
        let text = report(Ok(vec![member("b", &[1]), member("c", &[])]), alive).text();
        assert_eq!(row(&text, "b"), ["b", "1.0.0", "yes", "no", "1", "without Redis"]);
        assert_eq!(row(&text, "c"), ["c", "1.0.0", "yes", "no", "0", "normal"]);
        assert_eq!(row(&text, "older"), ["older", "-", "-", "-", "0", "without etcd"]);

        let died = report(Ok(vec![member("b", &[])]), vec![lease("a", false, false)]).text();
        assert!(row(&died, "a").is_empty(), "{died}");
    }

    #[test]
    fn without_the_cluster_replicas_are_those_of_the_store() {
        let report = report(Err("refused".to_owned()), vec![lease("a", true, true)]);
        let text = report.text();
        assert_eq!(row(&text, "a"), ["a", "-", "-", "-", "2", "without etcd and Redis"]);
        let json = serde_json::to_value(&report.members).expect("JSON");
        let replica = serde_json::json!({
            "name": "a", "version": null, "leads": null, "executes": null, "shards": [0, 1],
            "withoutServers": ["cluster", "queue"],
        });
        assert_eq!(json, serde_json::json!([replica]));
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
